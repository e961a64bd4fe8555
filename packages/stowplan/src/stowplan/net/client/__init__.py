"""HTTP client for a real API server; implements the protocol of `api/port.py`.

    connection = ClusterFlags(kubeconfig=None).connect()  # as kubectl finds its cluster
    async with HttpApi.open(connection, client_settings=ClientConnection(), agent="my-tool/1.0") as api:
        nodes = await api.list(Node)
        pods = ListWatch(api, Pod, times=REAL_TIMES, report=print)
        await pods.run(lambda changes: ...)  # until cancelled: Change(old, new) of every object, across reconnects

The names are in `client.cluster_flags`, `client.http_api`, `client.list_watch`, `timing.times`, `config` and
`api.types`.
"""
