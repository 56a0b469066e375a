"""README shows what the committed results hold."""

from report.key_numbers import BLOCK, ROOT, answers, cell


def test_the_readme_shows_the_numbers_of_the_committed_results():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"<!-- {BLOCK} -->\n{answers()}\n<!-- end of {BLOCK} -->" in text


def test_cells_never_round_up_to_100_and_mark_constant_answers():
    assert cell({"accuracy": 1.0, "collapsed": False}) == "100%"
    assert cell({"accuracy": 0.999999, "collapsed": False}) == "99.99%"
    assert cell({"accuracy": 0.546, "collapsed": True}) == "54.6% †"


def test_the_block_is_written_between_the_marks_and_nowhere_else(refused, script, tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text("no marks")
    refused("report/key_numbers.py", "--readme", readme, words=["no lines", BLOCK])
    text = f"before\n<!-- {BLOCK} -->\n{{}}\n<!-- end of {BLOCK} -->\nafter"
    readme.write_text(text.format("old"))
    assert script("report/key_numbers.py", "--readme", readme).returncode == 0
    assert readme.read_text() == text.format(answers())
