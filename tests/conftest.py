"""What all tests share: hypothesis without clocks, so that a busy machine fails none."""

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "gpuprof", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60
)
settings.load_profile("gpuprof")


def pytest_addoption(parser):
    parser.addoption(
        "--update-expected",
        action="store_true",
        help="write what the tests find into the files of expectations; review the difference",
    )


@pytest.fixture
def update_expected(request):
    """Whether a test is to write its expectation instead of checking it."""
    return request.config.getoption("--update-expected")
