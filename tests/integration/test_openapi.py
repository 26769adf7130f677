"""Both HTTP interfaces do what their OpenAPI documents say, whatever they are sent."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI

from eigentensor_aggregator.config import Settings as GatewaySettings
from eigentensor_aggregator.service import assembled as gateway_assembled
from eigentensor_serve.server import assembled, create_app
from eigentensor_serve.settings import Settings
from support.hostile.openapi import conforms

HOST = {"host": "localhost"}


@pytest.fixture
def gateway(settings: GatewaySettings) -> Iterator[FastAPI]:
    with gateway_assembled(settings) as (app, _):
        yield app


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FastAPI]:
    monkeypatch.setenv("EIGENTENSOR_CACHE_DIR", str(tmp_path / "blobs"))
    with assembled(Settings(local=True, data=tmp_path / "data", rate=1e6)) as running:
        yield create_app(running)


def test_the_gateway_answers_as_its_document_says(gateway: FastAPI) -> None:
    assert conforms(gateway, 2, HOST) > 40


def test_the_service_answers_as_its_document_says(service: FastAPI) -> None:
    assert conforms(service, 2, HOST) > 40


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_gateway_answers_as_its_document_says_for_long(gateway: FastAPI) -> None:
    assert conforms(gateway, 300, HOST) > 6000


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_service_answers_as_its_document_says_for_long(service: FastAPI) -> None:
    assert conforms(service, 300, HOST) > 6000
