"""Services that ours stand on, as processes on loopback."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import httpx


def s3_server() -> AbstractContextManager[str]:
    """The URL of an S3 that keeps all in memory (moto's), empty."""
    return _served(str(Path(sys.executable).with_name("moto_server")))


def kms_server() -> AbstractContextManager[str]:
    """The URL of a KMS that keeps all in memory (moto's, repaired), empty."""
    return _served(sys.executable, "-m", "support.kms")


@contextmanager
def _served(*command: str) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    words = [*command, "-H", "127.0.0.1", "-p", str(port)]
    environment = os.environ | {"PYTHONPATH": ":".join(filter(None, sys.path))}
    with subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
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
        "AWS_ENDPOINT_URL_KMS": url,
        "AWS_ENDPOINT_URL_S3": url,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
