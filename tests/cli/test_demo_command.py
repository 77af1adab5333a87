import pytest
from commands import ROOT, gpuprof, started

NAMES = ["direct.gpuprof", "staged.gpuprof"]


def test_the_demo_writes_recordings_and_runs_the_tour_on_them(tmp_path):
    done = gpuprof("demo", cwd=tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(path.name for path in (tmp_path / "gpuprof-demo").iterdir()) == NAMES
    commands = [line[2:] for line in done.stdout.splitlines() if line.startswith("$ ")]
    assert [command.split()[1] for command in commands] == ["compare", "report", "predict"]
    for command in commands:
        answer = gpuprof(*command.split()[1:], cwd=tmp_path)
        begin = "\n".join(answer.stdout.splitlines()[:16])
        assert f"$ {command}\n{begin}\n" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_the_demo_replaces_its_own_recordings_and_nothing_else(tmp_path):
    folder = tmp_path / "a demo"
    folder.mkdir()
    (folder / NAMES[0]).write_text("damaged")

    done = gpuprof("demo", folder)

    assert done.returncode == 0
    assert "'" in next(line for line in done.stdout.splitlines() if line.startswith("$ "))
    other = folder / "train.py"
    other.write_text("")
    refused = gpuprof("demo", folder)
    assert refused.returncode == 1
    assert refused.stderr.startswith(f"Error: {folder} is a folder of other files\n")
    assert other.exists()


@pytest.mark.parametrize(
    ("place", "message"), [("no/demo", "there is no folder no"), ("file", "is a file")]
)
def test_a_place_that_is_no_folder_is_refused(tmp_path, place, message):
    (tmp_path / "file").write_text("")

    done = gpuprof("demo", place, cwd=tmp_path)

    assert (done.returncode, done.stdout) == (1, "")
    assert message in done.stderr


def test_the_recordings_are_those_of_the_documentation(tmp_path):
    gpuprof("demo", tmp_path / "demo")

    for name in NAMES:
        shipped = ROOT / "gpuprof" / "docs" / "recordings" / name
        assert (tmp_path / "demo" / name).read_bytes() == shipped.read_bytes()


def test_a_reader_of_the_demo_may_leave_early(tmp_path):
    with started("demo", cwd=tmp_path) as demo:
        demo.stdout.readline()
        demo.stdout.close()
        said = demo.stderr.read()

    assert (demo.returncode, said) == (0, "")
