"""Kernels that tests compile go into a folder of their own, once for all workers of a run."""

import os
from collections.abc import Iterator

import pytest

from support.campaigns.device_cases import usable
from support.oracles.backends import EXPECTED, Backend, backend


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "kernels"
    folder.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield


@pytest.fixture(params=[*EXPECTED, pytest.param("CUDA", marks=pytest.mark.gpu)])
def at(request: pytest.FixtureRequest) -> Backend:
    """Every way of executing that must be here, and a GPU if there is one: each has to give the reference's bits."""
    if request.param == "CUDA":
        usable("CUDA")
    return backend(request.param)
