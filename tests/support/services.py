"""Services that ours stand on, as processes on loopback."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import httpx

from eigentensor_local.ports import free_port


def s3_server() -> AbstractContextManager[str]:
    """The URL of an S3 that keeps all in memory (moto's), empty."""
    return _served(str(Path(sys.executable).with_name("moto_server")))


def kms_server() -> AbstractContextManager[str]:
    """The URL of a KMS that keeps all in memory (moto's, repaired), empty."""
    return _served(sys.executable, "-m", "support.kms")


@contextmanager
def _served(*command: str) -> Iterator[str]:
    port = free_port()
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


@contextmanager
def postgres_server() -> Iterator[str | None]:
    """The URL of a PostgreSQL server up to the name of a database; None where none is installed."""
    programs = next(iter(sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"), reverse=True)), None)
    if programs is None:
        yield None
        return
    folder = tempfile.mkdtemp()  # the server runs as another user, who does not reach a test's own
    user = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
    if user:
        shutil.chown(folder, "postgres")
    port = free_port()
    data = ["-D", f"{folder}/data"]
    listen = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"

    def control(program: str, *words: str) -> None:
        command = [*user, str(programs.with_name(program)), *data, *words]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, timeout=60)

    try:
        control("initdb", "-A", "trust", "-U", "test", "-E", "UTF8", "--no-sync")
        control("pg_ctl", "-w", "-l", f"{folder}/log", "-o", listen, "start")
        yield f"postgresql://test@127.0.0.1:{port}/"
        control("pg_ctl", "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)
