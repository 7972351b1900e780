"""A real Prometheus scrapes tslab-metrics.socket."""

import shutil
import urllib.request

from host import *

SKIP = 77
HOST = '127.0.0.1'
API = f'http://{HOST}:9090/api/v1/query?query='
CONFIG = '''
global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs: [{job_name: tslab, static_configs: [{targets: ['127.0.0.1:9465']}]}]
'''


def ask(query):
    try:
        with urllib.request.urlopen(API + query, timeout=5) as answer:
            return json.load(answer)['data']['result']
    except OSError:
        return []


def value(query):
    return {r['metric'].get('pool'): float(r['value'][1]) for r in ask(query)}


if not shutil.which('prometheus'):
    print('no prometheus here (Debian: prometheus)')
    sys.exit(SKIP)
setup()
for pool in ('sessions', 'web'):
    start(pool)
sh('systemctl', 'enable', '--now', 'tslab-metrics.socket')
sh('systemctl', 'start', 'tslabd@web.service')     # scrapes start no idle pool
client = Client('hold', 'sessions', 1000)
client.wait_for('ready')
folder = pathlib.Path('/run/prometheus')
folder.mkdir()
(folder / 'config.yml').write_text(CONFIG)
sh('promtool', 'check', 'config', folder / 'config.yml')
server = subprocess.Popen(['prometheus', f'--config.file={folder}/config.yml', f'--storage.tsdb.path={folder}/data',
                           '--web.listen-address=127.0.0.1:9090'], stdout=subprocess.DEVNULL,
                          stderr=open(folder / 'log', 'w', encoding='utf-8'))
try:
    wait_for(lambda: value('tslab_up') == {'sessions': 1, 'web': 1}, 'both pools are up', 30)
    wait_for(lambda: value('tslab_clients') == {'sessions': 1, 'web': 0}, 'the client is counted', 30)
    wait_for(lambda: value('rate(tslab_allocs_total[10s])').get('sessions', 0) > 0, 'a rate of allocations', 30)
    expect({r['metric']['size'] for r in ask('tslab_class_slabs')} >= {'64', '816'}, 'the classes')
    expect([r['value'][1] for r in ask('up')] == ['1'], 'the scrape itself')
    expect({r['metric']['version'] for r in ask('tslab_daemon_info')} != set(), 'the version')
except SystemExit:
    print((folder / 'log').read_text())
    raise
finally:
    server.terminate()
    server.wait(30)
client.end()
