"""What the command lines of these scripts share: errors of one line, numbers that make sense."""

import argparse
from typing import NoReturn


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, and whose help keeps its lines."""

    def __init__(self, description: str | None) -> None:
        super().__init__(
            description=description, formatter_class=argparse.RawDescriptionHelpFormatter
        )

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and leave with status 2."""
        self.exit(2, f"{self.prog}: {message}\n")


def whole_number(text: str, least: int = 0) -> int:
    """A whole number that is not too small, from the command line."""
    number = int(text) if text.isdecimal() else -1
    if number < least:
        msg = f"expected a whole number of {least} or more, found {text}"
        raise argparse.ArgumentTypeError(msg)
    return number


def positive(text: str) -> int:
    """A whole number of 1 or more."""
    return whole_number(text, 1)


def listed(text: str) -> list[str]:
    """Words between commas."""
    return [word.strip() for word in text.split(",") if word.strip()]
