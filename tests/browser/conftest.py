"""A real browser without a driver: a probe goes into a copy of the page and reports back.

The probe's hash is added to the page's own security policy, so that the page runs under
the rules it is shipped with.
"""

import base64
import hashlib
import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

RECORD = """
window.probe = { errors: [] };
window.addEventListener("error", (e) => window.probe.errors.push(String(e.message)));
window.addEventListener("unhandledrejection", (e) =>
  window.probe.errors.push(String(e.reason)));
document.addEventListener("securitypolicyviolation", (e) =>
  window.probe.errors.push(`policy: ${e.violatedDirective} ${e.blockedURI}`));
for (const name of ["error", "warn"]) {
  console[name] = (...words) => window.probe.errors.push(words.join(" "));
}
"""

# Helpers for the tests' own scripts, and the end: everything found goes into the page.
ACT = """
const one = (query, root = document) => root.querySelector(query);
const all = (query, root = document) => [...root.querySelectorAll(query)];
const texts = (query, root = document) => all(query, root).map((node) => node.textContent);
const fire = (node, kind, at, more = {}) => {
  const Kind = kind.startsWith("pointer") ? PointerEvent
    : kind === "wheel" ? WheelEvent : MouseEvent;
  const event = new Kind(kind, { clientX: at[0], clientY: at[1], bubbles: true,
    cancelable: true, pointerId: 1, pointerType: "mouse", button: 0, ...more });
  node.dispatchEvent(event);
  return event;
};
const middle = (node) => {
  const box = node.getBoundingClientRect();
  return [box.left + box.width / 2, box.top + box.height / 2];
};
const tip = () => one("#tooltip.shown")?.innerText ?? null;
const coloursOf = (canvas) => {
  const pixels = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const seen = new Set();
  for (let i = 0; i < pixels.length; i += 4) seen.add(pixels.slice(i, i + 4).join());
  return seen.size;
};
(async () => {
  try {
    %s
  } catch (failure) {
    window.probe.errors.push(`probe: ${failure}`);
  }
  probe.resources = performance.getEntriesByType("resource").map((entry) => entry.name);
  const out = document.createElement("pre");
  out.id = "probe";
  out.textContent = JSON.stringify(window.probe);
  document.body.appendChild(out);
  if (window.parent !== window) window.parent.postMessage(out.textContent, "*");
})();
"""

# Chromium's windows are never narrower than 500 pixels; a frame may be as narrow as a phone.
PHONE = """<!DOCTYPE html><meta name="color-scheme" content="light dark"><body>
<iframe width="390" height="844" src="page.html"></iframe>
<script>addEventListener("message", (event) => {
  const out = document.createElement("pre");
  out.id = "probe";
  out.textContent = event.data;
  document.body.appendChild(out);
});</script>"""

FRAME = """<!DOCTYPE html><meta name="color-scheme" content="light dark">
<body style="margin: 0"><iframe width="{width}" height="{height}" style="border: 0"
src="page.html"></iframe>"""


@pytest.fixture(scope="session")
def chromium():
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip(
            "no Chromium on PATH; install it by `apt install chromium`, or Google Chrome, "
            f"under one of the names {', '.join(BROWSERS)}"
        )
    return found


def browse(chromium, folder, *words):
    """Run the browser without a window; the last word is the page."""
    *flags, page = words
    command = [
        chromium,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        "--no-first-run",
        f"--user-data-dir={folder / 'profile'}",
        "--virtual-time-budget=3000",
        *flags,
        page.as_uri(),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


@pytest.fixture(scope="session")
def photograph(chromium, tmp_path_factory):
    """photograph(page, name, width, height, dark): a PNG of the page.

    They are kept if the environment names a directory for them, WEAKPROX_SCREENSHOTS.
    """

    def taken(page: Path, name: str, width: int, height: int, *, dark: bool) -> Path:
        folder = tmp_path_factory.mktemp("photograph")
        kept = Path(os.environ.get("WEAKPROX_SCREENSHOTS") or folder)
        kept.mkdir(parents=True, exist_ok=True)
        picture = kept / f"{name}-{width}-{'dark' if dark else 'light'}.png"
        picture.unlink(missing_ok=True)
        shutil.copy(page, folder / "page.html")
        frame = folder / "frame.html"  # as narrow as a phone, which no window is
        frame.write_text(FRAME.format(width=width, height=height), encoding="utf-8")
        flags = [f"--screenshot={picture}", f"--window-size={width},{height}"]
        if dark:
            flags.append("--blink-settings=preferredColorScheme=0")
        done = browse(chromium, folder, *flags, frame)
        assert picture.exists(), f"no picture was taken: {done.stderr[-2000:]}"
        return picture

    return taken


@pytest.fixture(scope="session")
def visit(chromium, tmp_path_factory):
    """visit(page, script, flags...): open the page, run the script, give its findings."""

    def visited(page: Path, script: str, *flags: str, phone: bool = False) -> dict:
        folder = tmp_path_factory.mktemp("visit")
        probed = folder / "page.html"
        text = page.read_text(encoding="utf-8")
        act = ACT % script
        for code in (RECORD, act):
            digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
            text = text.replace("script-src ", f"script-src 'sha256-{digest}' ", 1)
        text = text.replace("</head>", f"<script>{RECORD}</script></head>", 1)
        cut = text.rindex("</body>")
        text = f"{text[:cut]}<script>{act}</script>{text[cut:]}"
        probed.write_text(text, encoding="utf-8")
        if phone:
            probed = folder / "phone.html"
            probed.write_text(PHONE, encoding="utf-8")
        done = browse(chromium, folder, "--window-size=1280,900", *flags, "--dump-dom", probed)
        found = re.search(r'<pre id="probe">(.*?)</pre>', done.stdout, flags=re.DOTALL)
        assert found, f"the browser gave nothing back: {done.stderr[-2000:]}"
        return json.loads(html.unescape(found.group(1)))

    return visited
