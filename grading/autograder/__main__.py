"""Write autograder.zip, which Gradescope takes as an autograder:    python -m grading.autograder [FILE]"""

import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

if __name__ == "__main__":
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "autograder.zip")
    files = [*ROOT.glob("grading/*.*"), *ROOT.glob("lab/*.py"), *ROOT.glob("problem*/expected.json")]
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in [HERE / "setup.sh", HERE / "run_autograder", ROOT / "requirements.txt"]:
            archive.write(path, path.name)
        for path in sorted(files):
            archive.write(path, path.relative_to(ROOT))
    print(f"{target}: upload it to Gradescope as the autograder of an assignment.")
