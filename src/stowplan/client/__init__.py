"""HTTP client for a real API server; implements the protocol of `api/port.py`.

    connection = connect_from_flags(kubeconfig=None)  # as kubectl finds its cluster
    async with HttpApi.open(connection, client_settings=ClientConnection(), agent="my-tool/1.0") as api:
        nodes = await api.list(Node)
        pods = ListWatch(api, Pod, times=REAL_TIMES, report=print)
        await pods.run(lambda changes: ...)  # for ever: Change(old, new) of everything, whatever the network does

Those are `client.connection.connect_from_flags`, `client.http_api.HttpApi`, `client.watching.list_watch.ListWatch`,
`timing.times.REAL_TIMES`, `config.ClientConnection`, and the structs of `api.types`.
"""
