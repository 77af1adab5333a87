"""What `place_jax.py` and `place_torch.py` share: their words, and what they print."""

import argparse
import sys
from collections.abc import Sequence

from arguments import Parser

from gpuprof.base.errors import GpuprofError
from gpuprof.place.proposal import proposal_of, timed_proposal
from gpuprof.place.simulate import machine
from gpuprof.place.step_graph import StepGraph
from gpuprof.show import Page
from gpuprof.show.placement_search import as_text

WIDTH = 80


def parse(description: str | None, arguments: Sequence[str] | None) -> argparse.Namespace:
    """What the command line asks for; bad words end the program with one line."""
    parser = Parser(description)
    parser.add_argument("--gpus", metavar="2xK80", help="estimate times on these, too")
    parser.add_argument("--link", default="pcie3", metavar="NAME", help="between them")
    options = parser.parse_args(arguments)
    try:
        options.machine = machine(options.gpus, options.link) if options.gpus else None
    except GpuprofError as error:
        parser.error(error.message)
    return options


def show(name: str, graph: StepGraph, options: argparse.Namespace) -> None:
    """Print what a step copies, and the placement to try."""
    proposal = proposal_of(graph)
    times = timed_proposal(proposal, options.machine) if options.machine else None
    sys.stdout.write(
        as_text(
            name, proposal, times, Page(WIDTH), lambda s: [f"device {s.device}: {s.description}"]
        )
    )
