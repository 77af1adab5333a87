"""Checks of the Python environment: frameworks, NVTX, and other packages named ``gpuprof``."""

from typing import Final

from gpuprof.base.errors import install
from gpuprof.doctor.finding import Finding, numbers
from gpuprof.doctor.machine import FRAMEWORKS, Machine

# From this version on, nsys 2023.4 keeps no range of the package.
_NVTX_TOO_NEW: Final = (0, 2, 12)
_NSYS_WITHOUT_RANGES: Final = (2023, 4)


def frameworks(machine: Machine) -> Finding:
    """Frameworks, whose profilers record without a GPU tool; none is imported."""
    installed = [f"{n} {machine.packages[n]}" for n in FRAMEWORKS if n in machine.packages]
    if installed:
        return Finding("frameworks", "ok", ", ".join(installed))
    fix = "Install gpuprof in the Python environment of the training script."
    text = "TensorFlow, PyTorch and JAX are not installed"
    return Finding("frameworks", "limited", text, fix)


def nvtx(machine: Machine) -> Finding:
    """The package that shows marked epochs to nsys."""
    version, nsys = machine.packages.get("nvtx"), machine.tools.get("nsys")
    if version is None:
        text = "nvtx is not installed, so nsys does not record marked epochs and steps"
        return Finding("nvtx", "limited", text, install("nvtx"))
    too_new = numbers(version) >= _NVTX_TOO_NEW
    if nsys is not None and too_new and numbers(nsys)[:2] <= _NSYS_WITHOUT_RANGES:
        text = f"nvtx {version} is too new for nsys {nsys}, which would record no ranges"
        return Finding("nvtx", "problem", text, "pip install 'nvtx<0.2.12', or update nsys.")
    return Finding("nvtx", "ok", f"nvtx {version}")


def compiled(machine: Machine) -> Finding:
    """The functions of gpuprof that read SQLite files from their pages."""
    if machine.is_compiled:
        return Finding("SQLite", "ok", "gpuprof's compiled functions read SQLite exports")
    text = "gpuprof was installed without its compiled functions: large SQLite exports take longer"
    fix = "Install a C compiler (apt-get install gcc), then reinstall gpuprof."
    return Finding("SQLite", "limited", text, fix)


def distribution(machine: Machine) -> Finding:
    """PyPI's ``gpuprof``, another project that installs the same package and command."""
    if machine.other_gpuprof is None:
        return Finding("distribution", "ok", "no other package named gpuprof is installed")
    text = (
        f"PyPI's gpuprof {machine.other_gpuprof}, another project, is also installed and replaces "
        "this command and package"
    )
    fix = "pip uninstall gpuprof, then install gpuprof-toolkit again from where you have it."
    return Finding("distribution", "problem", text, fix)
