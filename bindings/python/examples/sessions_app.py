"""A web application whose workers share their sessions:

    gunicorn --workers 4 sessions_app:app

The pool is that of a tslabd, $TSLAB_POOL or "default". STORE=redis or STORE=memcached keeps the same sessions there
instead, to compare.
"""

import os

import flask

import tslab
import tslab.flask

LIFETIME = float(os.environ.get('LIFETIME', 1800))


def make_store():
    kind = os.environ.get('STORE', 'tslab')
    if kind != 'tslab':
        import other_stores
        return other_stores.STORES[kind](LIFETIME)
    return tslab.SessionStore(tslab.open(), lifetime=LIFETIME)


app = flask.Flask(__name__)
app.session_interface = tslab.flask.SessionInterface(make_store)


@app.get('/')
def count():
    flask.session['visits'] = flask.session.get('visits', 0) + 1
    return {'visits': flask.session['visits'], 'pid': os.getpid()}


@app.get('/read')
def read():
    return {'visits': flask.session.get('visits', 0), 'pid': os.getpid()}


@app.post('/login')
def log_in():
    flask.session['user'] = flask.request.form['user']
    return {'user': flask.session['user']}


@app.get('/user')
def user():
    return {'user': flask.session.get('user'), 'pid': os.getpid()}


@app.post('/logout')
def log_out():
    flask.session.clear()
    return {}
