"""Where ``gpuprof`` and ``python -m gpuprof`` begin; Ctrl-C is met while the rest loads, too."""

import sys


def run() -> None:
    """Run the command line and leave with its exit status."""
    try:
        from gpuprof.cli import main  # noqa: PLC0415 - loading is what takes time

        main()
    except KeyboardInterrupt:
        sys.stderr.write("Error: stopped by Ctrl-C\n")
        sys.exit(130)


if __name__ == "__main__":
    run()
