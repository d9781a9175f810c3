"""playground_models.py puts every carried model into _static/models/, as the playground will ask for it."""

from sphinx_project import build

from tiny_gpt import weights
from tiny_gpt.widgets.playground import scripts


def test_the_carried_models_are_there(tmp_path):
    site = build(tmp_path, {"index": "# Page\n\nText.\n"}, ["playground_models"])
    assert site.warnings == ""
    folder = site.outdir / "_static" / "models"
    wanted = {file: text for name in (*weights.carried(), weights.STRANGERS) for file, text in scripts(name).items()}
    assert {path.name: path.read_text() for path in folder.iterdir()} == wanted
