"""The programs of docs/languages.md: each language reads what the others wrote.

    test-programs.py TSLABD PAGE LANGUAGE=COMMAND...

A command is JSON: the words before the name of the program's file. Languages of the page without a command are named, and
their programs not run. A program of a language that is compiled has a command that compiles and runs it.
"""

import json
import os
import re
import subprocess
import sys
import tempfile

from daemon import SECONDS, Daemon

TSLABD, PAGE = sys.argv[1:3]
COMMANDS = {language: json.loads(command) for language, command in (a.split('=', 1) for a in sys.argv[3:])}
SUFFIXES = {'js': '.js', 'php': '.php', 'python': '.py', 'go': '.go', 'rust': '.rs'}


def programs():
    """The texts of the programs by section and language."""
    with open(PAGE, encoding='utf-8') as page:
        sections = re.split(r'^## ', page.read(), flags=re.MULTILINE)[1:]
    found = {s.split('\n', 1)[0]: dict(re.findall(r'^```(\w+)\n(.*?)^```', s, re.MULTILINE | re.DOTALL)) for s in sections}
    return {title: texts for title, texts in found.items() if texts}


def begin(daemon, folder, title, language, *arguments):
    path = os.path.join(folder, title.replace(' ', '-').lower() + SUFFIXES[language])
    return subprocess.Popen([*COMMANDS[language], path, daemon.socket, *arguments], env=daemon.environment,
                            stdout=subprocess.PIPE, text=True)


def output(process):
    text, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, (process.args, process.returncode, text)
    return text.strip()


def main():
    sections = programs()
    assert len(sections) == 4, list(sections)
    languages = sorted(set.intersection(*(set(texts) for texts in sections.values())))
    for texts in sections.values():
        assert set(texts) == set(languages), f'a program is missing: {sorted(texts)} beside {languages}'
    absent = [language for language in languages if language not in COMMANDS]
    if absent:
        print(f'not run, as their toolchains or bindings are not there: {", ".join(absent)}')
    here = [language for language in languages if language in COMMANDS]
    if not here:
        sys.exit(77)

    with tempfile.TemporaryDirectory() as folder, Daemon(TSLABD, '--size=16M') as daemon:
        for title, texts in sections.items():
            for language, text in texts.items():
                with open(os.path.join(folder, title.replace(' ', '-').lower() + SUFFIXES[language]), 'w',
                          encoding='utf-8') as file:
                    file.write(text)

        def run(title, language, *arguments):
            return output(begin(daemon, folder, title, language, *arguments))

        # Twice, so that each language reads the session of each.
        for n, language in enumerate([*here, *here], 1):
            assert run('Share a session', language) == f'alice {n}', language

        for n, language in enumerate([*here, *here, *here, *here], 1):
            assert run('Count with a limit', language) == f'{n} {"served" if n <= 3 else "refused"}', language

        running = [begin(daemon, folder, 'Compute once', language) for language in [*here, *here]]
        assert {output(process) for process in running} == {'Page 7'}
        running = [begin(daemon, folder, 'Compute once', language) for language in here]
        assert {output(process) for process in running} == {'Page 7'}
        if 'js' in here:
            rendered = "console.log(require('tslab').open(process.argv[2]).map('pages').add('rendered', 0))"
            with open(os.path.join(folder, 'rendered.js'), 'w', encoding='utf-8') as file:
                file.write(rendered)
            assert run('rendered', 'js') == '1'

        for maker in here:
            assert run('Invalidate a tag', maker, 'invalidate') == f'made by {maker}'
            for language in here:
                assert run('Invalidate a tag', language) == f'made by {maker}', (maker, language)
    print(f'ran in {", ".join(here)}')


if __name__ == '__main__':
    main()
