"""A node on loopback that says what a test wants, to each request or in the place of what a true one says."""

import json
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from typing import Any

import requests

#: From a method and what a true node would say, to an HTTP status and a body.
Says = Callable[[str, bytes], tuple[int, bytes]]
#: From a question of JSON-RPC to its whole answer.
Answers = Callable[[dict[str, Any]], dict[str, Any]]
_NEWEST = ("latest", "pending")
#: Where the block stands among the parameters of a method about accounts.
_PLACES = {"eth_call": 1, "eth_getBalance": 1, "eth_getCode": 1, "eth_getTransactionCount": 1}


@contextmanager
def false_node(says: Says, true_node: str = "", headers: Mapping[str, str] | None = None) -> Iterator[str]:
    """Its URL. Without a true node it has nothing to pass on. Questions that come together are answered one by one;
    what is said as the answer to question 0 is one to whatever was asked. `headers` stand with every refusal."""

    def said(asked: dict[str, Any]) -> tuple[int, bytes]:
        true = requests.post(true_node, json=asked, timeout=30).content if true_node else b""
        status, body = says(asked["method"], true)
        return status, body.replace(b'"id": 0', b'"id": %d' % asked["id"])

    def answered(asked: Any) -> tuple[int, bytes]:
        if isinstance(asked, dict):
            return said(asked)
        answers = [said(one) for one in asked]
        return max(status for status, _ in answers), b"[%s]" % b",".join(body for _, body in answers)

    with _listening(answered, headers or {}) as url:
        yield url


@contextmanager
def balanced(*nodes: Answers) -> Iterator[str]:
    """The address of several nodes, of which each request meets any one."""
    random = Random(5)

    def answered(asked: Any) -> tuple[int, bytes]:
        node = random.choice(nodes)
        answers = node(asked) if isinstance(asked, dict) else list(map(node, asked))
        return 200, json.dumps(answers).encode()

    with _listening(answered, {}) as url:
        yield url


@contextmanager
def counting(url: str, asked: Counter[str]) -> Iterator[str]:
    """The address of a node as it is; counts what it is asked, by methods."""
    whole = true(url)

    def answered(questions: Any) -> tuple[int, bytes]:
        each = [questions] if isinstance(questions, dict) else questions
        asked.update(question["method"] for question in each)
        return 200, json.dumps(whole(questions)).encode()

    with _listening(answered, {}) as counted:
        yield counted


def true(url: str) -> Answers:
    """A node as it is."""

    connection = requests.Session()

    def answer(asked: dict[str, Any]) -> dict[str, Any]:
        told: dict[str, Any] = connection.post(url, json=asked, timeout=30).json()
        return told

    return answer


def late(url: str, blocks: int) -> Answers:
    """A node that does not have the newest blocks yet, so many: it leaves out their logs, and says nothing of it."""
    whole = true(url)

    def ask(method: str, *parameters: Any) -> Any:
        return whole({"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}).get("result")

    def answer(asked: dict[str, Any]) -> dict[str, Any]:
        method, parameters = asked["method"], list(asked["params"])
        head = int(ask("eth_blockNumber"), 16) - blocks
        told = {"jsonrpc": "2.0", "id": asked["id"]}
        if method == "eth_blockNumber":
            return told | {"result": hex(head)}
        if method == "eth_getBlockByNumber":
            block = hex(head) if parameters[0] in _NEWEST else parameters[0]
            there = not block.startswith("0x") or int(block, 16) <= head
            return told | {"result": ask(method, block, *parameters[1:]) if there else None}
        if method == "eth_getTransactionReceipt":
            receipt = ask(method, *parameters)
            return told | {"result": receipt if receipt and int(receipt["blockNumber"], 16) <= head else None}
        if method == "eth_getLogs" and "toBlock" in parameters[0]:
            last = min(int(parameters[0]["toBlock"], 16), head)
            if last < int(parameters[0]["fromBlock"], 16):
                return told | {"result": []}
            parameters[0] = parameters[0] | {"toBlock": hex(last)}
        elif (
            method == "eth_getLogs"
            and int(ask("eth_getBlockByHash", parameters[0]["blockHash"], False)["number"], 16) > head
        ):
            return told | {"error": {"code": -32000, "message": "unknown block"}}
        elif (place := _PLACES.get(method)) is not None and parameters[place] in _NEWEST:
            parameters[place] = hex(head)
        return whole(asked | {"params": parameters})

    return answer


@contextmanager
def _listening(answered: Callable[[Any], tuple[int, bytes]], headers: Mapping[str, str]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            status, body = answered(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(status)
            for name, value in headers.items() if status != 200 else ():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            """Prints nothing where whoever asked has gone away: what is printed is the test's to look at."""
            if not isinstance(sys.exception(), ConnectionError):
                raise

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
