import os
import uuid

import pytest
from kit import Kit


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(params=["sync", "async"])
async def kit(request, anyio_backend):
    kit = Kit(request.param)
    yield kit
    await kit.kill_all()


@pytest.fixture
async def sandbox(kit):
    return await kit.make()


@pytest.fixture
def mark():
    """A word that nothing else has."""
    return uuid.uuid4().hex


@pytest.fixture
def stranger():
    """A key of another owner."""
    return os.environ["STRANGERS_KEY"]
