"""Services that ours stand on, as processes on loopback."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx


@contextmanager
def s3_server() -> Iterator[str]:
    """The URL of an S3 that keeps all in memory (moto's), empty."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    program = str(Path(sys.executable).with_name("moto_server"))
    words = [program, "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            for _ in range(600):
                try:
                    httpx.get(url)
                    break
                except httpx.TransportError:
                    assert process.poll() is None
                    time.sleep(0.1)
            yield url
        finally:
            process.kill()


def access(url: str) -> Mapping[str, str]:
    """The environment in which `s3://…` means this server; its keys are any."""
    return {
        "AWS_ENDPOINT_URL_S3": url,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
