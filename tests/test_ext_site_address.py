"""Where the book is published: what each way of saying it gives, and which of them goes first."""

import pytest
from sphinx_project import build
from tiny_gpt_book.site_address import find_repository, find_site  # found through sphinx_project


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/Ada/tiny-gpt",
        "https://github.com/Ada/tiny-gpt.git",
        "https://x-access-token:s3cret@github.com/Ada/tiny-gpt",
        "git@github.com:Ada/tiny-gpt.git",
        "ssh://git@github.com/Ada/tiny-gpt.git",
    ],
)
def test_every_form_of_a_remote_names_the_repository(url):
    assert find_repository({}, url, "") == "Ada/tiny-gpt"


@pytest.mark.parametrize("url", ["", "/home/ada/book", "https://example.org/Ada/tiny-gpt", "https://notgithub.com/a/b"])
def test_another_remote_is_no_repository_on_github(url):
    assert find_repository({}, url, "") == ""


def test_jupyter_books_own_repository_is_not_this_books():
    """It stands in the configuration of every book that names none."""
    from jupyter_book.config import get_final_config

    options = get_final_config(cli_config={"latex_individualpages": False})[0]["html_theme_options"]
    assert options["repository_url"]
    assert find_repository({}, "", options["repository_url"]) == ""


def test_the_runner_goes_before_the_remote_and_the_remote_before_the_configuration():
    origin, configured = "git@github.com:b/b.git", "https://github.com/c/c"
    assert find_repository({"GITHUB_REPOSITORY": "a/a"}, origin, configured) == "a/a"
    assert find_repository({}, origin, configured) == "b/b"
    assert find_repository({}, "/somewhere/else", configured) == "c/c"


def test_the_site_is_the_configured_one_or_that_of_pages():
    assert find_site("", "Ada/Tiny-GPT") == "https://ada.github.io/Tiny-GPT/"
    assert find_site("", "Ada/ada.github.io") == "https://ada.github.io/"
    assert find_site("https://book.example/en", "Ada/Tiny-GPT") == "https://book.example/en/"
    assert find_site("", "") == ""


def test_pages_say_their_canonical_address_when_it_is_known_and_only_then(tmp_path, monkeypatch):
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    assert 'rel="canonical"' not in build(tmp_path / "a", {"index": "# A"}, ["site_address"]).html()
    monkeypatch.setenv("GITHUB_REPOSITORY", "Ada/tiny-gpt")
    page = build(tmp_path / "b", {"index": "# A"}, ["site_address"]).html()
    assert '<link rel="canonical" href="https://ada.github.io/tiny-gpt/index.html"' in page
