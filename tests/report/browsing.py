"""A page of HTML in a real Chromium."""

import shutil
from contextlib import contextmanager

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@contextmanager
def opened(browser, address, width=1280, **settings):
    """The page; at the end no message, no error and no request but the page itself must have come."""
    context = browser.new_context(viewport={"width": width, "height": 800}, **settings)
    context.set_default_timeout(120_000)  # milliseconds: a machine that is busy with other tests draws slowly
    page, said, asked = context.new_page(), [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    yield page
    assert said == []
    assert asked == [address]
    context.close()
