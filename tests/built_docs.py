"""The built documentation without network, in Chromium: `python tests/built_docs.py [FOLDER]`.

Every page is opened with all host names unresolvable. Formulas must be typeset, no TeX may be
left in the text, and no script may come from elsewhere. The exit status is 1 if a page fails.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
HIDDEN = re.compile(r"<(script|style|code|pre|mjx-container)\b.*?</\1>", re.DOTALL)
TEX = re.compile(r"\\\(|\\\[|\\[lr]Vert|\\tfrac|\\frac|\\lambda|\\tau|\\min_|\$\$")


def opened(browser: str, page: Path) -> str:
    """Return the page as the browser sees it after its scripts have run."""
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=30000"]
    flags += ["--host-resolver-rules=MAP * ~NOTFOUND", "--dump-dom"]
    done = subprocess.run(
        [browser, *flags, page.as_uri()], capture_output=True, text=True, timeout=180
    )
    return done.stdout


def faults(source: str, dom: str) -> list[str]:
    """Return what is wrong with a page."""
    found = []
    if "mjx-container" not in dom and 'class="math' in source:
        found.append("formulas are not typeset")
    text = re.sub(r"<[^>]+>", "", HIDDEN.sub("", dom))
    found += [f"raw TeX: {raw}" for raw in sorted(set(TEX.findall(text)))]
    found += re.findall(r'<script[^>]*src="(https?://[^"]*)"', dom)
    return found


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "_build" / "html"
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print("Without Chromium, the built pages are not checked.")
        return
    pages = [p for p in sorted(folder.rglob("*.html")) if "_static" not in p.parts]
    pages = [p for p in pages if p.name not in ("genindex.html", "search.html")]
    bad = 0
    for page in pages:
        source = page.read_text("utf-8")
        if 'class="math' not in source and "<script" not in source:
            continue
        found = faults(source, opened(browser, page.resolve()))
        bad += bool(found)
        for fault in found:
            print(f"{page.relative_to(folder)}: {fault}")
    print(f"{len(pages)} pages opened without network, {bad} with faults")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
