"""Code on a page is marked as not to be translated, in tables too, and nothing else is."""

import re

from sphinx_project import build

PAGE = """# Page with `code`

| name | what |
|--|--|
| `idx` | the ids |

Text, `inline`.

```python
block = 1
```
"""


def test_code_is_not_translated(tmp_path):
    html = build(tmp_path, {"index": PAGE}, ["translation"]).html()
    body = html.split('role="main"')[1].split("sphinxsidebar")[0]
    code = re.findall(r"<(?:code|pre)\b[^>]*>", body)
    assert len(code) == 4
    assert all(tag.count('translate="no"') == 1 for tag in code)
    assert body.count("translate=") == len(code)
