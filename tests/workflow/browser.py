"""Debian's Chromium without a window: what a page shows, asks for and fails at."""

import json
import shutil
from pathlib import Path
from typing import Any

from selenium import webdriver

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = (
    "--headless=new",
    "--no-sandbox",  # CI runs as root
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
)


class Browser:
    """A session; `open` notes each page's console and requests since the one before."""

    def __init__(self) -> None:
        options = webdriver.ChromeOptions()
        options.binary_location = str(CHROMIUM)
        for flag in FLAGS:
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        service = webdriver.ChromeService(executable_path=str(DRIVER))
        self.driver = webdriver.Chrome(options=options, service=service)
        self.driver.set_page_load_timeout(300)
        self.driver.set_script_timeout(300)

    def open(self, page: Path) -> None:
        self.driver.get(page.resolve().as_uri())

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script returns."""
        return self.driver.execute_script(script, *arguments)

    def errors(self) -> list[str]:
        """Errors on the console. Warnings don't count: the style sheet that Snakemake puts into its
        report warns that it is a development build."""
        entries = self.driver.get_log("browser")
        return [entry["message"] for entry in entries if entry["level"] == "SEVERE"]

    def requests(self) -> set[str]:
        """Every address that a page asked for, but data held in the page itself."""
        events = [json.loads(e["message"])["message"] for e in self.driver.get_log("performance")]
        urls = {
            event["params"]["request"]["url"]
            for event in events
            if event["method"] == "Network.requestWillBeSent"
        }
        return {url for url in urls if not url.startswith(("data:", "blob:", "about:"))}

    def close(self) -> None:
        self.driver.quit()
