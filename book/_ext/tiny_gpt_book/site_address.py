"""Where this book is published, as far as anybody has said: its repository on GitHub, its site, and the commit.

Sets two configuration values that all others read, and changes of which write every page again: `book_repository`
(OWNER/NAME, or "") and Sphinx's own `html_baseurl` (ending in a slash, or ""), from which Sphinx makes canonical links.
"""

import os
import re
import subprocess
from pathlib import Path

GITHUB = re.compile(r"(?:(?:https?|ssh|git)://(?:[^/@]*@)?|git@)github\.com[/:]([\w.-]+/[\w.-]+?)(?:\.git)?/?$")
UNSET = "executablebooks/jupyter-book"  # what Jupyter Book fills in where _config.yml names no repository
BRANCH = "gh-pages"  # the branch that holds the built site, and so the notebooks


def git(root: Path, *arguments: str) -> str:
    """What git answers, or nothing where there is no git or no such thing."""
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


def find_repository(environ: dict[str, str], origin: str, configured: str) -> str:
    """OWNER/NAME from GITHUB_REPOSITORY, else from the remote `origin`, else from `repository: url` in _config.yml."""
    if named := environ.get("GITHUB_REPOSITORY"):
        return named
    for url in (origin, configured):
        match = GITHUB.match(url)
        if match and match[1] != UNSET:
            return match[1]
    return ""


def find_site(configured: str, repository: str) -> str:
    """The address of the built site: `html: baseurl` in _config.yml, else where GitHub Pages puts the repository."""
    if configured or not repository:
        return configured and configured.rstrip("/") + "/"
    owner, name = repository.split("/")
    host = f"{owner.lower()}.github.io"
    return f"https://{host}/" if name.lower() == host else f"https://{host}/{name}/"


def commit(root: Path) -> str:
    """The commit that is checked out, 40 hexadecimal digits, or nothing."""
    return git(root, "rev-parse", "HEAD")


def choose(app, config):
    origin = git(Path(app.srcdir), "remote", "get-url", "origin")
    options = getattr(config, "html_theme_options", {})
    config.book_repository = find_repository(dict(os.environ), origin, options.get("repository_url", ""))
    config.html_baseurl = find_site(config.html_baseurl, config.book_repository)


def connect(app, on):
    app.add_config_value("book_repository", "", "html")
    on("config-inited", choose)
