"""Records a chat in a terminal and draws what is on the screen at its end. Usage: record.py KERNLOOM OUT.svg"""

import html
import os
import pty
import re
import select
import struct
import sys
import termios
import time
from fcntl import ioctl

import pyte

COLUMNS, ROWS = 112, 60
WORDS = ["run", "--temp", "0"]
SAID = ["What is the capital of Norway?", "Tell me a story about a fox.", "/exit"]
# The prompt of the chat, at the beginning of a line that waits.
PROMPT = re.compile(r"^> *$")

CELL, LINE, FONT, MARGIN = 8.4, 20, 14, 16
BACKGROUND, PLAIN, DIM = "#16181d", "#d7dae0", "#868d99"
COLOURS = {"default": PLAIN, "green": "#8cc265", "cyan": "#56b6c2", "blue": "#61afef", "red": "#e06c75",
           "brown": "#d5b06b", "yellow": "#d5b06b", "magenta": "#c678dd", "brightblack": DIM, "white": PLAIN}


class Screen(pyte.Screen):
    """A screen that remembers which cells are faint: pyte knows nothing of that."""

    def __init__(self, columns, lines):
        self.faint = False
        super().__init__(columns, lines)

    def select_graphic_rendition(self, *attributes, **rest):
        for attribute in attributes or (0,):
            if attribute == 2:
                self.faint = True
            elif attribute in (0, 22):
                self.faint = False
        super().select_graphic_rendition(*attributes, **rest)
        if self.faint:
            self.cursor.attrs = self.cursor.attrs._replace(fg="brightblack")


def record(program):
    """The screen after the conversation."""
    screen = Screen(COLUMNS, ROWS)
    stream = pyte.ByteStream(screen)
    child, terminal = pty.fork()
    if child == 0:
        # What was typed is kept nowhere.
        environment = {name: os.environ[name] for name in ("HOME", "PATH", "XDG_CACHE_HOME") if name in os.environ}
        environment["TERM"] = "xterm-256color"
        os.execve(program, [program, *WORDS, "--no-history"], environment)
    ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    left, quiet, deadline = list(SAID), time.monotonic(), time.monotonic() + 120
    while time.monotonic() < deadline:
        ready, _, _ = select.select([terminal], [], [], 0.1)
        if ready:
            try:
                data = os.read(terminal, 65536)
            except OSError:
                break
            if not data:
                break
            stream.feed(data)
            quiet = time.monotonic()
            continue
        waits = PROMPT.match(screen.display[screen.cursor.y])
        if left and waits and time.monotonic() - quiet > 0.5:
            os.write(terminal, left.pop(0).encode() + b"\r")
    _, status = os.waitpid(child, 0)
    if left or status != 0:
        sys.exit(f"the chat did not go to its end: {left}, status {status}\n" + "\n".join(screen.display).rstrip())
    return screen


def rows(screen):
    """The rows in use, each as runs of equal looks: text, colour, whether it is bold."""
    cells = [[screen.buffer[y][x] for x in range(screen.columns)] for y in range(screen.lines)]
    while cells and all(cell.data == " " for cell in cells[-1]):
        cells.pop()
    for row in cells:
        runs = []
        for cell in row:
            looks = (COLOURS.get(cell.fg, PLAIN), cell.bold)
            if runs and runs[-1][1:] == looks:
                runs[-1] = (runs[-1][0] + cell.data, *looks)
            else:
                runs.append((cell.data, *looks))
        yield runs


def draw(lines):
    """A picture of a terminal."""
    width, height = COLUMNS * CELL + 2 * MARGIN, len(lines) * LINE + 2 * MARGIN
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}" '
           f'viewBox="0 0 {width:.0f} {height}" role="img" aria-label="A chat with kernloom run in a terminal">')
    yield f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>'
    yield f'<g font-family="ui-monospace, Menlo, Consolas, monospace" font-size="{FONT}" xml:space="preserve">'
    for number, runs in enumerate(lines):
        column, y = 0, MARGIN + number * LINE + FONT
        for text, colour, bold in runs:
            if text.strip():
                lead = len(text) - len(text.lstrip())
                shown = text.strip()
                weight = ' font-weight="bold"' if bold else ""
                x, length = MARGIN + (column + lead) * CELL, len(shown) * CELL
                yield (f'<text x="{x:.1f}" y="{y}" textLength="{length:.1f}" fill="{colour}"{weight}>'
                       f"{html.escape(shown)}</text>")
            column += len(text)
    yield "</g>"
    yield "</svg>"


def main():
    program, out = sys.argv[1:]
    command = [(f"$ kernloom {' '.join(WORDS)}", PLAIN, True)]
    lines = [command, *rows(record(program))]
    with open(out, "w", encoding="utf-8") as file:
        file.write("\n".join(draw(lines)) + "\n")


main()
