"""The built documentation without network, in Chromium: `python tests/built_docs.py [FOLDER]`.

Every page is opened with all host names unresolvable. Formulas must be typeset, no TeX may be
left in the text, and no script may come from elsewhere. In windows of 1400 and of 390 pixels,
no block of code may be wider than its box, and no page wider than the window. The exit status
is 1 if a page fails. With --quick, formulas are checked on one page in three.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
HIDDEN = re.compile(r"<(script|style|code|pre|mjx-container)\b.*?</\1>", re.DOTALL)
TEX = re.compile(r"\\\(|\\\[|\\[lr]Vert|\\tfrac|\\frac|\\lambda|\\tau|\\min_|\$\$")
AT_ONCE = 2  # browsers
WIDTHS = (1400, 390)  # pixels: a laptop and a phone

# Visits pages one after the other in a frame of each width, which is not limited by the least
# width of a window, and leaves what it measured in its own document.
MEASURE = """<!doctype html><meta charset="utf-8"><iframe height="900"></iframe><script>
const frame = document.querySelector("iframe");
const seen = { visited: 0, found: [] };
const visit = async (page, width) => {
  frame.width = width;
  await new Promise((done) => { frame.onload = done; frame.src = page; });
  const inner = frame.contentDocument;
  for (const code of inner.querySelectorAll("pre")) {
    if (code.scrollWidth > code.clientWidth + 1) {
      const line = code.textContent.split("\\n").sort((a, b) => b.length - a.length)[0];
      seen.found.push([page, `code is clipped at ${width} px: ${line.trim().slice(0, 60)}`]);
    }
  }
  const whole = inner.documentElement.scrollWidth;
  if (whole > width + 1) seen.found.push([page, `${whole} px wide in a window of ${width} px`]);
  seen.visited += 1;
};
(async () => {
  for (const width of %s) for (const page of %s) await visit(page, width);
  const report = document.createElement("pre");
  report.id = "seen";
  report.textContent = JSON.stringify(seen);
  document.body.append(report);
})();
</script>"""


def dumped(browser: str, page: Path, *flags: str) -> str:
    """Return the page as the browser sees it after its scripts have run, without network."""
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    command += ["--host-resolver-rules=MAP * ~NOTFOUND", *flags, "--dump-dom", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    return done.stdout


def opened(browser: str, page: Path) -> str:
    """Return a page with its formulas typeset."""
    with tempfile.TemporaryDirectory() as profile:
        own = f"--user-data-dir={profile}"
        return dumped(browser, page, own, "--virtual-time-budget=30000")


def clipped(browser: str, pages: Sequence[Path]) -> dict[Path, list[str]]:
    """Return the pages on which code or the page itself is too wide, and what is."""
    addresses = {page.resolve().as_uri(): page for page in pages}
    with tempfile.TemporaryDirectory() as folder:
        frame = Path(folder) / "frame.html"
        frame.write_text(MEASURE % (json.dumps(WIDTHS), json.dumps(list(addresses))), "utf-8")
        flags = ["--allow-file-access-from-files", f"--user-data-dir={folder}/profile"]
        dom = dumped(browser, frame, *flags, "--virtual-time-budget=600000")
    report = re.search(r'<pre id="seen">(.*?)</pre>', dom, flags=re.DOTALL)
    if report is None:
        raise RuntimeError("the browser did not finish measuring the pages")
    seen = json.loads(html.unescape(report.group(1)))
    if seen["visited"] != len(WIDTHS) * len(addresses):
        raise RuntimeError(f"the browser measured {seen['visited']} pages only")
    found: dict[Path, list[str]] = {}
    for address, fault in seen["found"]:
        found.setdefault(addresses[address], []).append(fault)
    return found


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
    told = [word for word in sys.argv[1:] if word != "--quick"]
    folder = Path(told[0]) if told else ROOT / "docs" / "_build" / "html"
    step = 3 if "--quick" in sys.argv else 1
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print("Without Chromium, the built pages are not checked.")
        return
    pages = [p for p in sorted(folder.rglob("*.html")) if "_static" not in p.parts]
    pages = [p for p in pages if p.name not in ("genindex.html", "search.html")]
    wide = clipped(browser, pages)
    sources = {page: page.read_text("utf-8") for page in pages}
    set_in_tex = [page for page in pages if 'class="math' in sources[page]]
    with ThreadPoolExecutor(AT_ONCE) as several:  # only pages with formulas have to be typeset
        shown = {
            page: several.submit(opened, browser, page.resolve()) for page in set_in_tex[::step]
        }
    bad = 0
    for page, source in sources.items():
        found = wide.get(page, [])
        if page in shown or page not in set_in_tex:
            dom = shown[page].result() if page in shown else source
            found = found + faults(source, dom)
        bad += bool(found)
        for fault in found:
            print(f"{page.relative_to(folder)}: {fault}")
    print(f"{len(pages)} pages opened without network, {bad} with faults")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
