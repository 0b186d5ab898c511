#!/usr/bin/env python3
# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
"""The pages of the project: links, and C++ blocks.

    python3 tests/docs_test.py links                        # local links and anchors of every .md, tables, examples, messages
    python3 tests/docs_test.py blocks COMPILER [FLAG...]    # every ```cpp block of README.md and docs/
    python3 tests/docs_test.py cuda NVCC [FLAG...]          # those that only nvcc can compile
    python3 tests/docs_test.py self                         # this script, on pages made up here

A block that is a part of a program in examples/, line by line, is compiled there, as a test. Any other is compiled as
the body of a function of a namespace of its page, in one file with all others. A comment above it, which a reader of
the page does not see, says what else:

    <!-- code: from examples/a.cpp -->    it must be a part of that program
    <!-- code: namespace -->              it is compiled outside of a function
    <!-- code: cuda -->                   only nvcc can compile it
    <!-- code: if warpwright/a.hpp -->    only where that header exists
    <!-- code: of RMM -->                 another project's code: not compiled (PEERS)
    <!-- code: given                      hidden C++, compiled outside of a function: what the blocks below
    float* x;                             it use; replaces an earlier one of the page
    -->

Several words are separated by commas.
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PEERS = ("RMM", "PyTorch", "CUB", "cuBLAS")
FENCE = re.compile(r"^( *)(`{3,}|~{3,})(.*)$")
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(<?([^()\s<>]+(?:\([^()]*\)[^()\s]*)?)>?(?:\s+\"[^\"]*\")?\)")
REFERENCE = re.compile(r"^ {0,3}\[[^\]]+\]:\s+<?(\S+?)>?(?:\s|$)")
SOURCE = re.compile(r"<(?:img|source)\b[^>]*\b(?:src|srcset)=\"([^\"]+)\"|<a\b[^>]*\bhref=\"([^\"]+)\"")
NAMED = re.compile(r"<[a-z]+\b[^>]*\b(?:id|name)=\"([^\"]+)\"")


# --- Pages --------------------------------------------------------------------------------------


def pages_of(root):
    """Every .md of the project, relative to its root."""
    try:
        said = subprocess.run(["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard", "-z",
                               "--", "*.md"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
        files = said.stdout.decode().split("\0")
        return sorted(f for f in files if f and os.path.exists(os.path.join(root, f)))
    except (OSError, subprocess.CalledProcessError):  # a copy without its history
        found = []
        for folder, folders, files in os.walk(root):
            folders[:] = [f for f in folders if f != "build" and not f.startswith(".")]
            found += [os.path.relpath(os.path.join(folder, f), root) for f in files if f.endswith(".md")]
        return sorted(found)


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def prose(text):
    """The lines of a page with blocks of code and comments blank, so that numbers of lines stay."""
    text = re.sub(r"<!--.*?-->", lambda m: "\n" * m.group().count("\n"), text, flags=re.S)
    lines, fence = [], None
    for line in text.split("\n"):
        mark = FENCE.match(line)
        if fence is None and mark:
            fence = mark.group(2)
            lines.append("")
        elif fence is not None:
            if mark and mark.group(2).startswith(fence) and not mark.group(3).strip():
                fence = None
            lines.append("")
        else:
            lines.append(line)
    return lines


def slug(title):
    """The anchor that GitHub gives a title."""
    title = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", title)  # a link counts by its text
    title = re.sub(r"<[^>]*>", "", title).replace("`", "").replace("*", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", title).replace(" ", "-")


def anchors_of(text):
    found, seen = set(), {}
    for line in prose(text):
        found.update(NAMED.findall(line))
        title = re.match(r"^ {0,3}#{1,6}\s+(.*?)\s*#*\s*$", line)
        if title:
            name = slug(title.group(1))
            count = seen.get(name, 0)
            seen[name] = count + 1
            found.add(f"{name}-{count}" if count else name)
    return found


def links_of(text):
    """(number of the line, target) of each link that is not in code."""
    for number, line in enumerate(prose(text), 1):
        line = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", lambda m: "`" * len(m.group()), line)
        for target in LINK.findall(line) + REFERENCE.findall(line):
            yield number, target
        for pair in SOURCE.findall(line):
            yield number, pair[0] or pair[1]


def broken_links(root):
    """One text a link that leads nowhere."""
    pages = pages_of(root)
    texts = {page: read(os.path.join(root, page)) for page in pages}
    anchors = {}
    wrong = []
    for page in pages:
        for number, target in links_of(texts[page]):
            if re.match(r"^[a-z][a-z0-9+.-]*:", target):
                continue  # another server's
            path, _, anchor = target.partition("#")
            where = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
            if where.startswith("..") or os.path.isabs(path):
                wrong.append(f"{page}:{number}: {target} leads out of the project")
            elif not os.path.exists(os.path.join(root, where)):
                wrong.append(f"{page}:{number}: {target}: there is no {where}")
            elif anchor and where.endswith(".md"):
                if where not in anchors:
                    anchors[where] = anchors_of(texts[where] if where in texts else read(os.path.join(root, where)))
                if anchor not in anchors[where]:
                    wrong.append(f"{page}:{number}: {target}: {where} has no title '{anchor}'")
    return wrong


def broken_tables(root):
    """Rows of tables with more or fewer cells than their head; a | within code ends a cell as well, and is written \\|."""
    wrong = []
    for page in pages_of(root):
        lines, cells = prose(read(os.path.join(root, page))), 0
        for number, line in enumerate(lines, 1):
            if not line.startswith("|"):
                cells = 0
                continue
            count = len(re.findall(r"(?<!\\)\|", line.rstrip())) - 1
            if cells and count != cells:
                wrong.append(f"{page}:{number}: {count} cells in a table of {cells}")
            cells = cells or count
    return wrong


def unlinked_examples(root):
    """The examples that README.md does not link."""
    linked = {target.partition("#")[0].rstrip("/") for _, target in links_of(read(os.path.join(root, "README.md")))}
    folder = os.path.join(root, "examples")
    examples = [f for f in sorted(os.listdir(folder))
                if f.endswith((".cpp", ".cu")) or os.path.isdir(os.path.join(folder, f))]
    return [f"README.md does not link examples/{e}" for e in examples if f"examples/{e}" not in linked]


def unknown_messages(root):
    """The messages in titles of docs/faq.md that no source of the library has; what varies is an ellipsis there. Those
    that begin with cuda are CUDA's."""
    sources = []
    for top in ("include", "src"):
        for folder, _, files in os.walk(os.path.join(root, top)):
            for file in files:
                # As the compiler does, neighbours are one text; what stands between them varies.
                text = re.sub(r"\"\s*\n?\s*\"", "", read(os.path.join(folder, file)))
                sources.append(re.sub(r"\s+", " ", text))
    wrong = []
    for number, line in enumerate(read(os.path.join(root, "docs", "faq.md")).split("\n"), 1):
        if not line.startswith("### "):
            continue
        for message in re.findall(r"`([^`]+)`", line):
            parts = [p.strip(" ;,:'") for p in message.split("…")]
            for part in parts:
                if " " in part and not part.startswith(("cuda", "__")) and not any(part in text for text in sources):
                    wrong.append(f"docs/faq.md:{number}: no source has the text '{part}'")
    return wrong


# --- Blocks -------------------------------------------------------------------------------------


class Block:
    def __init__(self, page, line, words, code, given):
        self.page, self.line, self.words, self.code, self.given = page, line, words, code, given

    def word(self, name):
        """What follows a word of the comment above the block, or None."""
        return next((w[len(name):].strip() for w in self.words if w == name or w.startswith(name + " ")), None)


class Given:
    def __init__(self, line, code):
        self.line, self.code = line, code


def blocks_of(page, text):
    """The ```cpp blocks of a page. Indented ones, as in lists, count as well."""
    blocks, words, given = [], [], None
    lines = text.split("\n")
    k = 0
    while k < len(lines):
        comment = re.match(r"^<!-- code: (.*?)(-->)?$", lines[k].rstrip())
        mark = FENCE.match(lines[k])
        if comment and comment.group(1).strip() == "given" and not comment.group(2):
            begin = k + 1
            while k < len(lines) and lines[k].strip() != "-->":
                k += 1
            given = Given(begin + 1, "\n".join(lines[begin:k]))
        elif comment and comment.group(2):
            words = [w.strip() for w in comment.group(1).split(",")]
        elif mark:
            begin = k + 1
            k += 1
            while k < len(lines) and not (FENCE.match(lines[k]) and FENCE.match(lines[k]).group(2).startswith(
                    mark.group(2)) and not FENCE.match(lines[k]).group(3).strip()):
                k += 1
            if mark.group(3).strip() in ("cpp", "c++", "cuda"):
                indent = len(mark.group(1))
                code = "".join(line[indent:] + "\n" for line in lines[begin:k])
                blocks.append(Block(page, begin + 1, words, code, given))
            words = []
        elif lines[k].strip():
            words = []
        k += 1
    return blocks


def wrong_words(root, blocks):
    """What is wrong in the comments above blocks, and in those that are parts of examples."""
    known = ("from", "namespace", "cuda", "if", "of")
    wrong = []
    for b in blocks:
        where = f"{b.page}:{b.line}"
        for word in b.words:
            if word.split(" ")[0] not in known:
                wrong.append(f"{where}: '{word}' is none of {', '.join(known)}")
        peer, example = b.word("of"), b.word("from")
        if peer is not None and peer not in PEERS:
            wrong.append(f"{where}: '{peer}' is no project whose code is left out ({', '.join(PEERS)})")
        if example is not None:
            path = os.path.join(root, example)
            if not os.path.exists(path):
                wrong.append(f"{where}: there is no {example}")
            elif "\n" + b.code not in "\n" + read(path):
                wrong.append(f"{where}: {example} has not these lines:\n{b.code}")
    return wrong


def example_texts(root):
    for folder, _, files in os.walk(os.path.join(root, "examples")):
        for file in sorted(files):
            if file.endswith((".cpp", ".hpp", ".cu")):
                yield read(os.path.join(folder, file))


def file_of(root, blocks, cuda):
    """One C++ file of the blocks that are to be compiled, and how many they are. The compiler's messages name
    the pages."""
    includes, body, count, page, given = [], [], 0, None, None
    programs = ["\n" + text for text in example_texts(root)]
    for b in blocks:
        needs = b.word("if")
        if (b.word("of") is not None or b.word("from") is not None or (b.word("cuda") is not None) != cuda
                or (needs is not None and not os.path.exists(os.path.join(root, "include", needs)))
                or any("\n" + b.code in text for text in programs)):
            continue
        count += 1

        def code_of(line, code):
            out = []
            for part in code.split("\n"):
                if re.match(r"\s*#\s*include\b", part):
                    if part.strip() not in includes:
                        includes.append(part.strip())
                    part = ""
                out.append(part)
            return f'#line {line} "{b.page}"\n' + "\n".join(out).rstrip() + "\n"

        if b.page != page or b.given is not given:
            if page is not None:
                body.append("}\n")
            page, given = b.page, b.given
            body.append(f"namespace page_{re.sub('[^a-z0-9]', '_', page.lower())}_{b.line} {{\n")
            if given is not None:
                body.append(code_of(given.line, given.code))
        name = f"block_{b.line}"
        if b.word("namespace") is not None:
            body.append(f"namespace {name} {{\n{code_of(b.line, b.code)}}}\n")
        else:
            body.append(f"void {name}() {{\n{code_of(b.line, b.code)}}}\n")
    if page is not None:
        body.append("}\n")
    # Two passes of nvcc over all headers take long: there a page includes what its blocks need.
    first = "core.hpp" if cuda else "warpwright.hpp"
    head = "".join(f"{i}\n" for i in [f"#include <warpwright/{first}>", "#include <cstdio>", *includes])
    return head + "namespace ww = warpwright;\nnamespace ew = warpwright::ew;\n" + "".join(body), count


def all_blocks(root):
    pages = [p for p in pages_of(root) if p == "README.md" or p.startswith("docs" + os.sep)]
    return [b for page in pages for b in blocks_of(page, read(os.path.join(root, page)))]


def compile_blocks(root, command, cuda):
    blocks = all_blocks(root)
    wrong = wrong_words(root, blocks)
    text, count = file_of(root, blocks, cuda)
    if wrong or not blocks:
        return wrong or ["no page has a block of C++"]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "blocks.cu" if cuda else "blocks.cpp")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        done = subprocess.run([*command, path], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said = done.stdout.decode(errors="replace")
    if done.returncode != 0:
        return [said[:20000] or "the compiler failed and said nothing"]
    print(f"{count} of {len(blocks)} blocks compiled")
    return []


# --- This script --------------------------------------------------------------------------------


class Test(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name

    def write(self, path, text):
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)

    def test_links(self):
        self.write("README.md", "[a](docs/a.md) [b](docs/a.md#a-title-with-code) ![c](docs/none.svg)\n"
                                "[d](docs/a.md#other), `[e](none)` [f](https://example.org/none) [g](#here)\n"
                                "```sh\n[h](none)\n```\n<!-- [i](none) -->\n<img src=\"docs/no.svg\">\n## Here\n"
                                "[j](../out.md)\n")
        self.write("docs/a.md", "# A title, with `code`\n## Twice\n## Twice\n[k](../README.md#here) [l](#twice-1)\n")
        wrong = broken_links(self.root)
        self.assertEqual([w.split(" ")[1].rstrip(":") for w in wrong],
                         ["docs/none.svg", "docs/a.md#other", "docs/no.svg", "../out.md"])
        self.assertTrue(wrong[0].startswith("README.md:1: "))

    def test_slugs(self):
        for title, anchor in (("What it's for: `a_b`, c & d", "what-its-for-a_b-c--d"), ("A [link](x.md)", "a-link"),
                              ("`<<<>>>` launches", "-launches"), ("UPPER-case", "upper-case")):
            self.assertEqual(slug(title), anchor)

    def test_tables(self):
        self.write("a.md", "| a | b |\n|---|---|\n| `x \\| y` | 1 |\n| `x | y` | 1 |\n\n| c |\n|---|\n| d |\n")
        self.assertEqual(broken_tables(self.root), ["a.md:4: 3 cells in a table of 2"])

    def test_messages(self):
        self.write("include/a.hpp", 'throw text{"a pool has "} + 3 +\n    " bytes of "\n   "memory; free it";\n')
        self.write("docs/faq.md", "### `a pool has … bytes of memory; free it`\n### `cudaErrorX (1) of a call`\n"
                                  "### `a pool has none`\n")
        self.assertEqual(unknown_messages(self.root), ["docs/faq.md:3: no source has the text 'a pool has none'"])

    def test_blocks(self):
        self.write("examples/a.cpp", "int a;\nint b;\nint c;\n")
        self.write("include/warpwright/there.hpp", "")
        text = ("<!-- code: given\nint x;\n-->\n"
                "```cpp\n#include <vector>\nx = 1;\n```\n"
                "<!-- code: namespace -->\n\n```cpp\nvoid f();\n```\n"
                "<!-- code: from examples/a.cpp -->\n```cpp\nint b;\n```\n"
                "```cpp\nint b;\nint c;\n```\n"
                "<!-- code: of RMM -->\n```cpp\nrmm::x();\n```\n"
                "<!-- code: namespace, cuda -->\n```cpp\n__global__ void k();\n```\n"
                "<!-- code: if warpwright/none.hpp -->\n```cpp\nnone();\n```\n"
                "<!-- code: if warpwright/there.hpp -->\n```cpp\nthere();\n```\n"
                "<!-- code: namespace -->\nprose\n```cpp\nprose();\n```\n")
        blocks = blocks_of("docs/a.md", text)
        self.assertEqual(len(blocks), 9)
        self.assertEqual(wrong_words(self.root, blocks), [])
        host, count = file_of(self.root, blocks, cuda=False)
        self.assertEqual(count, 4)
        for part in ("#include <vector>\n", "\nint x;\n", "namespace block_11 {", "void f();", "there();",
                     '#line 5 "docs/a.md"\n', "() {\n#line 35"):
            self.assertIn(part, host)
        for part in ("rmm", "none();", "__global__", "int b;", "int c;"):
            self.assertNotIn(part, host)
        cuda, count = file_of(self.root, blocks, cuda=True)
        self.assertEqual(count, 1)
        self.assertIn("__global__", cuda)

    def test_wrong_words(self):
        self.write("examples/a.cpp", "int a;\n")
        for comment, said in (("from examples/a.cpp", "has not these lines"), ("from none.cpp", "there is no"),
                              ("of Nobody", "is no project"), ("namespac", "is none of")):
            blocks = blocks_of("a.md", f"<!-- code: {comment} -->\n```cpp\nint b;\n```\n")
            self.assertIn(said, wrong_words(self.root, blocks)[0])

    def test_examples(self):
        self.write("README.md", "[a](examples/a.cpp) [b](examples/b)\n")
        for path in ("a.cpp", "b/main.cpp", "c.cpp", "CMakeLists.txt"):
            self.write("examples/" + path, "")
        self.assertEqual(unlinked_examples(self.root), ["README.md does not link examples/c.cpp"])


def main(arguments):
    if arguments[:1] == ["links"]:
        wrong = broken_links(ROOT) + broken_tables(ROOT) + unlinked_examples(ROOT) + unknown_messages(ROOT)
    elif arguments[:1] in (["blocks"], ["cuda"]) and len(arguments) > 1:
        wrong = compile_blocks(ROOT, arguments[1:], cuda=arguments[0] == "cuda")
    elif arguments == ["self"]:
        return 0 if unittest.main(argv=["docs_test"], exit=False).result.wasSuccessful() else 1
    else:
        print(__doc__, file=sys.stderr)
        return 2
    for text in wrong:
        print(text, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
