"""Where ``gpuprof`` and ``python -m gpuprof`` begin; Ctrl-C is met while the rest loads, too."""

import sys


def run() -> None:
    """Run the command line and leave with its exit status."""
    try:
        from gpuprof.cli import main  # noqa: PLC0415 - loading is what takes time

        main()
    except SystemExit as ending:
        from gpuprof.base import startup  # noqa: PLC0415 - as above

        startup.end(ending.code)
        raise
    except KeyboardInterrupt:
        from gpuprof.base import signals  # noqa: PLC0415 - as above

        signals.say_stopped()
        sys.exit(signals.STATUS)


if __name__ == "__main__":
    run()
