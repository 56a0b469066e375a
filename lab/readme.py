"""Numbers in README.md that a run wrote: blocks between two marks, everything else is left as it is.

<!-- key numbers: make report -->
…written by write_block(README, "key numbers: make report", text)…
<!-- end of key numbers: make report -->
"""

from pathlib import Path

from lab.files import UserError, write_text


def write_block(readme: Path, name: str, text: str) -> None:
    """Put `text` between the marks called `name`, which must stand in the file once."""
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    old = readme.read_text(encoding="utf-8") if readme.is_file() else ""
    if old.count(begin) != 1 or old.count(end) != 1 or old.index(begin) > old.index(end):
        raise UserError(f"{readme} lacks the lines {begin} and {end}, between which its numbers go: put them back.")
    before, rest = old.split(begin)
    new = f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}"
    if new != old:
        write_text(readme, new)
