"""What all tests share: hypothesis without clocks, so that a busy machine fails none."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "gpuprof", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60
)
settings.load_profile("gpuprof")
