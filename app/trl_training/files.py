"""Training sets as files, to carry them to a machine with a GPU."""

from __future__ import annotations

from pathlib import Path

from policies.replay.errors import RouterInvalid
from policies.replay.trl.data import TrainingSet, read_lines


def write_training_set(data: TrainingSet, path: Path) -> None:
    """JSON lines. The file holds the queries' texts: treat it as you treat them."""
    with path.open("w", encoding="utf-8", errors="surrogatepass", newline="\n") as file:
        file.writelines(f"{line}\n" for line in data.lines())


def read_training_set(path: Path) -> TrainingSet:
    """Raises RouterInvalid."""
    try:
        with path.open(encoding="utf-8", errors="surrogatepass") as file:
            return read_lines(iter(file))
    except OSError as error:
        raise RouterInvalid(f"{path} cannot be read: {error.strerror}.", fix="export the training set again") from error
