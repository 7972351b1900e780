#!/usr/bin/env python3
"""Protections of tslab-near are taken away, one at a time, and a test has to show it.

        faults.py BUILD [words of a fault's name]

Each fault is a replacement in a copy of one source of near/, of which a tslab-near is made besides, or of one of the Python
package. When a replacement no longer applies, the code has changed: write it anew. Faults of libclient/near.c are in
tests/model/faults.py.
"""

import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / 'tests/mutate'))

import plant  # noqa: E402

SECONDS = 120
TRIES = 3       # a race may go well

# The name, the test, of test-history.py where no other file is named, the source, old and new text.
FAULTS = [
    ('changes are not dropped', 'AloneTest.test_nothing_happens', 'tracker.c',
     'r = tslab_near_drop(tracker->near, key, size);', 'r = 0;'),
    ('a flush of all keys is overheard', 'AloneTest.test_flushall', 'tracker.c',
     '''                flush_all(tracker);
                return;''', '                return;'),
    ('copies stay when a connection is lost', 'AloneTest.test_cut_connections', 'tracker.c',
     '''        end_cover(tracker);
        free_primaries(tracker);''', '''        free_primaries(tracker);'''),
    ('the cover lasts longer than the bound', 'AloneTest.test_a_network_that_is_silent', 'tracker.c',
     'tracker->until_usec = seen + bound_usec;', 'tracker->until_usec = seen + 4 * bound_usec;'),
    ('the cover lasts longer than the bound where its giver stands still', 'steps:ChangeTest', 'tracker.c',
     'tracker->until_usec = seen + bound_usec;', 'tracker->until_usec = seen + 4 * bound_usec;'),
    ('a question counts from its answer', 'AloneTest.test_a_slow_network', 'primary.c',
     'question->seen_usec = question->asked_usec;', 'question->seen_usec = now_usec();'),
    ('the question is asked on the other connection', 'AloneTest.test_the_connection_of_changes_is_silent', 'primary.c',
     '''        uint64_t fence = primary->fence.seen_usec, slots = primary->slots.seen_usec;
''', '''        uint64_t fence = primary->slots.seen_usec, slots = primary->slots.seen_usec;
'''),
    ('the role of a server that stands alone is not looked at',
     'ReplicaTest.test_the_primary_becomes_a_replica_that_hears_nothing', 'primary.c',
     'return topology_is_primary(reply) ? NULL : "this server is a replica now";', 'return NULL;'),
    ('answers of any server become copies', 'AddressTest.test_old_connections', 'tracker.c',
     '.n_servers = tracker->n,', '.n_servers = 0,'),
    ('nobody looks whether the address leads elsewhere', 'AddressTest.test_the_address_moves', 'primary.c',
     'return !primary->topology && !primary->is_named;', 'return false;'),
    ('Sentinel is asked once', 'SentinelTest.test_failover', 'sentinel.c',
     '''        else if (sentinel->asked_usec == 0)
                send_question(sentinel);''', '''        else if (sentinel->asked_usec == 0)
                return;'''),
    ('a pool that has been replaced is kept', 'trouble:CoverTest.test_another_arena', 'tracker.c',
     'if (tslab_stale(tracker->pool)) {', 'if (0) {'),
    ('a server that does not name the primaries is waited for', 'trouble:HostileTest.test_silence', 'tracker.c',
     'if (tracker->seed && now_usec() - tracker->seed_usec > patience)', 'if (0)'),
    ('a primary that never gets ready is waited for', 'trouble:HostileTest.test_silence', 'primary.c',
     '(!primary_is_ready(primary) && now_usec() - primary->opened_usec > patience_usec)', '0'),
    ('a primary that does not say that all was told is waited for', 'trouble:HostileTest.test_silence', 'primary.c',
     'is_overdue(&primary->fence, patience_usec) || ', ''),
    ('a primary that does not tell its role is waited for', 'trouble:HostileTest.test_silence', 'primary.c',
     'is_overdue(&primary->slots, patience_usec) ||', ''),
    ('slots without a primary are left out', 'trouble:AdviceTest.test_a_cluster_whose_half_is_down', 'tracker.c',
     'else if (tracker->topology.n_slots < TOPOLOGY_SLOTS) {', 'else if (0) {'),
    ('a replica is taken for a primary at first', 'trouble:AdviceTest.test_a_replica', 'tracker.c',
     'if (!topology_is_primary(reply)) {', 'if (0) {'),
    ('more prefixes are taken than there is room for', 'trouble:SettingsTest.test_prefixes', 'near-options.c',
     'if (options->n_prefixes == OPTIONS_PREFIXES_MAX)', 'if (0)'),
    ('the end of a long list of prefixes is left out', 'trouble:SettingsTest.test_prefixes_of_the_environment', 'near-options.c',
     'if (snprintf(text, sizeof(text), "%s", value) >= (int) sizeof(text))',
     'if (snprintf(text, sizeof(text), "%s", value) < 0)'),
    ('a link is used after its callback freed it', 'trouble:HostileTest.test_answers', 'link.c',
     '''        if (link->ret_freed)
                *link->ret_freed = true;
''', ''),
    ('a near cache that a program made keeps its limits', 'trouble:CoverTest.test_limits_of_a_near_cache_that_a_program_made',
     'main.c', 'r = tslab_map_set_options(map, map_options, set);', 'r = 0;'),
    ('any certificate of a server will do', 'tls:TlsTest.test_certificates', 'stream.c',
     'SSL_CTX_set_verify(tls->context, SSL_VERIFY_PEER, NULL);', 'SSL_CTX_set_verify(tls->context, SSL_VERIFY_NONE, NULL);'),
    ('a certificate of another server will do', 'tls:TlsTest.test_certificates', 'stream.c',
     'return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name);', 'return 1;'),
    ('clients that read from replicas are taken', 'near:ClusterTest.test_clients_that_read_from_replicas', '_engine.py',
     'if _sends_readonly(engine) or ', 'if '),
    ('a client asks a replica', 'SentinelTest.test_a_replica_is_refused', '_engine.py',
     "return _field(texts[0], b'run_id'), role == b'slave'", "return _field(texts[0], b'run_id'), False"),
    ('each call waits for a server that gives no answer', 'trouble:SilentTest.test_one_question_a_second', '_engine.py',
     'if begin < self._again:', 'if False:'),
    ('the client of a URL asks again', 'trouble:SilentTest.test_a_url', '_engine.py',
     'retry.Retry(backoff.NoBackoff(), 0)', 'retry.Retry(backoff.NoBackoff(), 3)'),
    ('a program does not drop its own change', 'near:NearTest.test_a_program_reads_its_own_change', 'near.py',
     'r = lib.tslab_near_drop(self._opened.near, name, len(name))', 'r = 0'),
    ('a session that this host ends is read here', 'sessions:AwayStale.test_killed', '_behind.py',
     'self._drop(self._prefix + session)', 'pass'),
]


def compile_faulty(build, folder, source, texts):
    """A tslab-near with that change."""
    sound = (ROOT / 'near' / source).read_text()
    old, new = texts
    faulty = plant.replace(sound, old, new)
    if faulty is None:
        return None
    copy, thing, program = folder / source, folder / 'faulty.o', folder / 'tslab-near'
    copy.write_text(faulty)
    for entry in json.loads((build / 'compile_commands.json').read_text()):
        if entry['file'].endswith('near/' + source) and 'tslab-near.p' in entry['output']:
            words = [str(copy) if word == entry['file'] else str(thing) if word == entry['output'] else word
                     for word in shlex.split(entry['command'])]
            subprocess.run([*words, '-Wno-error'], cwd=build, check=True, stderr=subprocess.DEVNULL)
            sound_object = entry['output']
    link = subprocess.run(['ninja', '-t', 'commands', 'near/tslab-near'], cwd=build, check=True, capture_output=True,
                          text=True)
    words = [str(thing) if word == sound_object else str(program) if word == 'near/tslab-near' else word
             for word in shlex.split(link.stdout.splitlines()[-1])]
    words = [word.replace('$ORIGIN/..', str(build)) for word in words]
    subprocess.run(words, cwd=build, check=True)
    return program


def copy_faulty(build, folder, source, texts):
    """A Python package with that change."""
    shutil.copytree(build / 'bindings/python/tslab', folder / 'tslab')
    faulty = plant.replace((folder / 'tslab' / source).read_text(), *texts)
    if faulty is None:
        return None
    (folder / 'tslab' / source).write_text(faulty)
    return folder


def fails(build, program, package, test):
    """Whether the checker sees it, not whether anything goes wrong."""
    environment = os.environ | {'PYTHONPATH': str(package), 'PYTHONDONTWRITEBYTECODE': '1',
                                'LD_LIBRARY_PATH': str(build / 'libclient')}
    for name in 'TSLAB_TEST_ALONE', 'TSLAB_TEST_FULL':
        environment.pop(name, None)
    file, case = test.split(':') if ':' in test else ('history', test)
    done = subprocess.run([sys.executable, HERE / f'test-{file}.py', 'daemon/tslabd', 'daemon/ctl/tslabctl', program, '',
                           case], cwd=build, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0 or 'FAILED (failures=' in done.stderr, done.stderr
    return done.returncode != 0


def try_fault(build, fault):
    name, test, source, *texts = fault
    with tempfile.TemporaryDirectory(prefix='tslab-near-faults-') as folder:
        program, package = build / 'near/tslab-near', build / 'bindings/python'
        if source.endswith('.py'):
            package = copy_faulty(build, pathlib.Path(folder), source, texts)
        else:
            program = compile_faulty(build, pathlib.Path(folder), source, texts)
        if not program or not package:
            return f'CHANGED {name}: the text of {source} is not as it was'
        is_red = any(fails(build, program, package, test) for _ in range(TRIES))
        return f'red     {name}: {test}' if is_red else f'GREEN   {name}: {test}'


def main():
    build, words = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    lines = []
    for fault in FAULTS:
        if all(word in fault[0] for word in words):
            lines.append(try_fault(build, fault))
            print(lines[-1], flush=True)
    return 0 if lines and all(line.startswith('red') for line in lines) else 1


sys.exit(main())
