"""What all tests share: expectations that are written anew on purpose, and no clocks."""

import os
import shutil
import signal
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "gpuprof", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60
)
settings.load_profile("gpuprof")

_PACKAGES = {"jax": "JAX", "tensorflow": "TensorFlow", "torch": "PyTorch"}
_OF_OTHERS = ("browser", "dask", "mpi", "profilers")


def pytest_addoption(parser):
    parser.addoption(
        "--update-expected",
        action="store_true",
        help="write what the tests find into the files of expectations; review the difference",
    )


def pytest_collection_modifyitems(items):
    """What runs the programs of others is tried again, and the summary counts it.

    A run under the real nsys was once seen to end with nothing that could be read, and Open MPI
    kills ranks a second after it told them to stop. Dask gives up processes that a busy machine
    starts slowly. Our own programs have no second chance. What is not installed is skipped.
    """
    lacking = {name: title for name, title in _PACKAGES.items() if find_spec(name) is None}
    lacking |= {} if shutil.which("mpirun") else {"mpi": "mpirun"}
    for item in items:
        absent = [title for name, title in lacking.items() if item.get_closest_marker(name)]
        tools = [(*marker.args, "nsys")[0] for marker in item.iter_markers("profilers")]
        for name in absent + [tool for tool in tools if shutil.which(tool) is None]:
            item.add_marker(pytest.mark.skip(reason=f"{name} is not installed"))
        if any(item.get_closest_marker(name) for name in _OF_OTHERS):
            item.add_marker(pytest.mark.flaky(reruns=2, reruns_delay=1))


@pytest.fixture(scope="session", autouse=True)
def heard_signals():
    """Programs that tests start hear Ctrl-C and hang-ups, though tests in the background do not.

    What is ignored stays ignored in a new program; what has a handler does not.
    """
    handlers = {"SIGINT": signal.default_int_handler, "SIGHUP": lambda *_: None}
    for name in handlers.keys() & signal.Signals.__members__.keys():
        number = signal.Signals[name]
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handlers[name])


@pytest.fixture(scope="session", autouse=True)
def exports(tmp_path_factory):
    """What nsys exports is made once for all tests, and not in the user's own cache."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GPUPROF_CACHE", str(folder / "exports"))
        yield


@pytest.fixture
def update_expected(request):
    """Whether a test is to write its expectation instead of checking it."""
    return request.config.getoption("--update-expected")


@pytest.fixture
def expect(request, update_expected):
    """Compare a text whole with a file under ``expected`` beside the test."""

    def check(name, text):
        path = Path(request.path).parent / "expected" / name
        if update_expected:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8")

    return check
