"""What a page's outputs are made from, found without running it: the modules its cells import, and the files they name.

Imports are followed through the package, those inside functions too. A name that is imported from a package leads to
the module that defines it, and a package whose parts are named (`figures.loss_curves`) to those parts alone. Where that
cannot be told, the whole package counts: a page that is executed once too often costs seconds, one that is not
executed shows yesterday's outputs.
"""

import ast
from functools import cache, cached_property
from pathlib import Path

from IPython.core.inputtransformer2 import TransformerManager

FRONT_END = {".css", ".mjs", ".wat"}  # what a widget is in a page; sphinx_anywidget reads it when the page is written


class Package:
    """The modules of one package, by their dotted names, and what each of them needs."""

    def __init__(self, folder: Path):
        self.folder, self.name = folder, folder.name
        self.modules: dict[str, Path] = {}
        self.data: list[Path] = []  # files that are no modules
        for path in sorted(folder.rglob("*")):
            parts = (self.name, *path.relative_to(folder).with_suffix("").parts)
            if path.suffix == ".py":
                self.modules[".".join(parts[:-1] if path.name == "__init__.py" else parts)] = path
            elif path.is_file() and "__pycache__" not in parts and path.suffix not in FRONT_END:
                self.data.append(path)
        # many pages reach the same modules
        self.read = cache(Path.read_bytes)
        self.tree = cache(lambda name: ast.parse(self.read(self.modules[name])))
        self.imports_of = cache(lambda name: self.imports(self.tree(name), name))
        self.defined_in = cache(self.defined_in)

    def is_package(self, name: str) -> bool:
        return self.modules[name].name == "__init__.py"

    def whole(self, name: str) -> set[str]:
        return {module for module in self.modules if module == name or module.startswith(f"{name}.")}

    def defined_in(self, name: str, wanted: str) -> set[str]:
        """The modules to follow for `from NAME import WANTED`."""
        below = f"{name}.{wanted}"
        if below in self.modules:
            return self.whole(below) if self.is_package(below) else {below}
        if not self.is_package(name):
            return {name}
        for node in ast.walk(self.tree(name)):
            for alias in node.names if isinstance(node, ast.ImportFrom) else ():
                if (alias.asname or alias.name) == wanted:
                    source = self.imported_from(node, name)
                    return self.defined_in(source, alias.name) if source else set()
            if wanted in (getattr(node, "name", ""), getattr(node, "id", "")):  # a function, a class, a variable
                return {name}
        return self.whole(name)

    def imported_from(self, node: ast.ImportFrom, importer: str) -> str | None:
        """The module of the package that `from ... import` names, in the module `importer`."""
        base = node.module or ""
        if node.level:
            parts = importer.split(".")
            parts = parts[: len(parts) - node.level + self.is_package(importer)]
            base = ".".join([*parts, base] if base else parts)
        return base if base in self.modules else None

    def imports(self, tree: ast.Module, importer: str) -> set[str]:
        """The modules of the package that this code needs directly."""
        found: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and (source := self.imported_from(node, importer)):
                for alias in node.names:
                    below = f"{source}.{alias.name}"
                    if below in self.modules and self.is_package(below):
                        found |= self.used_of(below, alias.asname or alias.name, tree)
                    else:
                        found |= self.defined_in(source, alias.name)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name not in self.modules:
                        continue
                    if alias.asname or "." not in alias.name:
                        bound = alias.asname or alias.name
                        used = self.used_of(alias.name, bound, tree) if self.is_package(alias.name) else {alias.name}
                    else:  # `import package.module` binds the package
                        used = self.whole(alias.name) | self.used_of(self.name, self.name, tree)
                    found |= used
        return found

    def used_of(self, package: str, bound: str, tree: ast.Module) -> set[str]:
        """The modules of a package that code needs in which the package is bound to a name."""
        attributes, names = [], 0
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == bound:
                attributes.append(node)
            names += isinstance(node, ast.Name) and node.id == bound
        if names > len(attributes):  # handed on, or searched by getattr
            return self.whole(package)
        found = {package}
        return found.union(*(self.defined_in(package, node.attr) for node in attributes))

    def reached(self, tree: ast.Module) -> set[Path]:
        """The files of the package that this code, which is not part of it, is run with."""
        if any(names_package(node, self.name) for node in ast.walk(tree)):  # in a command, or in a file that it writes
            return {*self.modules.values(), *self.data}
        modules, waiting = set(), self.imports(tree, "")
        while waiting:
            module = waiting.pop()
            if module not in modules:
                modules.add(module)
                # a package's own file lists what it offers: who wants one thing of it does not need all
                if not self.is_package(module) or module in self.defining:
                    waiting |= self.imports_of(module)
        files = {self.modules[module] for module in modules}
        for module in modules:
            folder = self.name
            for part in module.split(".")[1:]:
                files.add(self.modules[folder])
                folder += f".{part}"
        texts = [self.read(path).decode() for path in files]
        folders = {path.parent for path in files} - {self.folder}
        for path in self.data:
            named = (f'"{path.name}"', f'"{path.parent.name}"')
            if path.parent in folders or any(name in text for text in texts for name in named):
                files.add(path)
        return files

    @cached_property
    def defining(self) -> set[str]:
        """The packages whose own file holds code, and not only names that it imports."""
        code = (ast.FunctionDef, ast.ClassDef)
        return {n for n in self.modules if self.is_package(n) and any(isinstance(x, code) for x in self.tree(n).body)}


def names_package(node: ast.AST, name: str) -> bool:
    text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
    return name in text or name.replace("_", "-") in text


def code_of(cells: list[str]) -> ast.Module | None:
    """Code cells as one tree, or None if one of them is not Python."""
    for source in (lambda cell: cell, TransformerManager().transform_cell):  # the second knows %magic and !commands
        try:
            return ast.parse("\n".join(map(source, cells)))
        except SyntaxError:
            pass
    return None


def named_files(tree: ast.Module, folder: Path) -> set[Path]:
    """The files below a folder that a string in the code names."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and 0 < len(node.value) < 200:
            if "\n" in node.value or "\0" in node.value:
                continue
            path = folder / node.value
            if path.is_file() and folder in path.parents:
                found.add(path)
    return found
