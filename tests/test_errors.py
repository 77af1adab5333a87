import importlib.metadata

from gpuprof.base.errors import install, one_of


def test_near_names_are_meant():
    assert one_of("Tables", "totls", ["totals", "gaps"]) == "Did you mean totals?"


def test_of_many_choices_the_first_are_named_and_others_counted():
    names = [f"layer_{number}" for number in range(1_200)]

    assert one_of("Ranges", "x", names, 2) == "Ranges: layer_0, layer_1 and 1,198 more."
    assert one_of("Ranges", "x", names[:2], 2) == "Ranges: layer_0, layer_1."


def test_packages_of_an_extra_are_named_since_the_distribution_is_on_no_index(monkeypatch):
    lines = ["numpy>=1", "psutil>=5.9; extra == 'monitor'", 's3fs; extra == "storage"']
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: lines)

    assert install("monitor") == "pip install 'psutil>=5.9'"
    assert install("storage") == "pip install s3fs"
    assert install("other") == "pip install '.[other]'"
