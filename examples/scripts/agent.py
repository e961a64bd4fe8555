"""Ask `stowplan mcp` as an agent does, with the SDK of the Model Context Protocol: `pip install 'stowplan[mcp]'`.

python scripts/agent.py -f shop/cluster.yaml
"""

import asyncio
import sys

from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

QUESTIONS = (
    ("explain", {"of": "ml/notebook"}),
    ("what_if", {"addNodes": [{"like": "gpu-a1", "count": 1}], "drain": ["node-b1"]}),
    ("explain", {"of": "shop/wbe"}),
    ("drain", {"node": "node-b1"}),
)


async def main(options: list[str]) -> None:
    command = StdioServerParameters(command=sys.executable, args=["-m", "stowplan", "mcp", *options])
    async with Client(stdio_client(command)) as client:
        for tool, arguments in QUESTIONS:
            answer = await client.call_tool(tool, arguments)
            print(f">>> {tool} {arguments}{' (an error)' if answer.is_error else ''}")
            print(answer.content[0].text)


asyncio.run(main(sys.argv[1:]))
