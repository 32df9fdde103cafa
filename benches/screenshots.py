#!/usr/bin/env python3
"""Pictures of the HTML reports in a real browser: at 1,280 and 390 pixels, light and dark; and what does not fit there.

    benches/screenshots.py REPORT.html [...] --out FOLDER [--browser /usr/bin/chromium]

Needs the package playwright and a Chromium. Each page may ask for nothing from outside, may not be wider than the
window, and may log no error: else the script says so and fails.
"""
import argparse, pathlib, sys

WIDTHS = (1280, 390)
# The widest element that reaches over the window's edge and is not in a box that scrolls.
OVERFLOW = """() => {
  const wide = document.documentElement.clientWidth;
  const scrolls = e => { for (; e; e = e.parentElement) if (getComputedStyle(e).overflowX !== 'visible') return true; return false; };
  return [...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > wide + 1 && !scrolls(e))
    .map(e => `${e.tagName.toLowerCase()}.${e.className.baseVal ?? e.className} ${Math.round(e.getBoundingClientRect().right)}`).slice(0, 5);
}"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reports", nargs="+", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--browser", default="/usr/bin/chromium")
    arguments = parser.parse_args()
    from playwright.sync_api import sync_playwright

    faults = []
    arguments.out.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=arguments.browser, args=["--no-sandbox"])
        for report in arguments.reports:
            for width in WIDTHS:
                for scheme in ("light", "dark"):
                    name = f"{report.stem}-{width}-{scheme}"
                    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
                    page.on("request", lambda request: None if request.url.startswith("file:") else faults.append(f"{name}: asks for {request.url}"))
                    page.on("pageerror", lambda error: faults.append(f"{name}: {error}"))
                    page.goto(report.resolve().as_uri())
                    page.screenshot(path=arguments.out / f"{name}.png", full_page=True)
                    found = page.evaluate("document.documentElement.scrollWidth"), page.evaluate(OVERFLOW)
                    if found[0] > width or found[1]:
                        faults.append(f"{name}: {found[0]} pixels wide; {'; '.join(found[1])}")
                    page.close()
        browser.close()
    for fault in faults:
        print(fault)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
