#!/usr/bin/env python3
"""Preprocessor of mdBook: links that lead out of the book, and links to a folder's README.

Files outside docs/ are not in the book. A link to one becomes a link to `repository` (book.toml); without a
repository its text stays, and shows the file's path when the pointer is on it. mdBook names the page of README.md
index.html.
"""
import json, posixpath, re, sys

LINK = re.compile(r'(?<!!)\[([^\]]*)\]\(([^)\s]+)(?: "([^"]*)")?\)')


def mended(text, page, repository):
    def link(found):
        words, target, title = found.groups()
        if re.match(r"[a-z]+:|#", target):
            return found.group()
        path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target))
        if path.startswith("docs/"):
            return re.sub(r"README\.md(?=[#) ])", "index.md", found.group())
        if repository:
            return f"[{words}]({repository.rstrip('/')}/blob/HEAD/{path})"
        return f'<span title="{path}{": " + title if title else ""}">{words}</span>'

    # Every second part is between fences.
    parts = re.split(r"(^ *```.*?^ *```)", text, flags=re.M | re.S)
    return "".join(part if at % 2 else LINK.sub(link, part) for at, part in enumerate(parts))


def walk(node, repository):
    if isinstance(node, list):
        for item in node:
            walk(item, repository)
    elif isinstance(node, dict):
        if isinstance(node.get("content"), str) and node.get("source_path"):
            node["content"] = mended(node["content"], node["source_path"], repository)
        for value in node.values():
            walk(value, repository)


if len(sys.argv) > 1:
    # `supports RENDERER`: all.
    sys.exit(0)
context, book = json.load(sys.stdin)
walk(book, context["config"]["preprocessor"]["links-out"].get("repository"))
json.dump(book, sys.stdout)
