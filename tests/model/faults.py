#!/usr/bin/env python3
"""Every protection of the lock-free core is taken away once, and a case of the model, or a unit test, must go red.

        faults.py ROOT [words of a fault's name]

Each fault is a replacement in a copy of one source, in which white space and comments do not count; the file named has
the case that sees it (FILE/CASE: this case alone is run; unit-NAME: the unit test; meson:NAME/FUNCTION: a test as meson
builds it, of which this function, or case of the model, must fail). When a replacement no longer applies, the code has
changed: write it anew.
"""

import concurrent.futures
import itertools
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'mutate'))
import farm  # noqa: E402
import plant  # noqa: E402

# The name, the file with the case, source, then pairs of old and new text.
FAULTS = [
    ('set add: nothing above a leaf bit that was set', 'set', 'shm/slab/set.c',
     '''        set_bits(word_at(arena, set, leaf, group), mask);
        add_above(arena, set, leaf, group);''', '''        if ((shm_load_sc(word_at(arena, set, leaf, group)) & mask) == mask)
                return;
        set_bits(word_at(arena, set, leaf, group), mask);
        add_above(arena, set, leaf, group);'''),
    ('set add: not up to the root where the leaf was not empty', 'set', 'shm/slab/set.c',
     '''        set_bits(word_at(arena, set, leaf, group), mask);
        add_above(arena, set, leaf, group);''', '''        if (shm_or_sc(word_at(arena, set, leaf, group), mask) == 0)
                add_above(arena, set, leaf, group);'''),
    ('set add above: stops at a bit already set', 'set', 'shm/slab/set.c',
     '''                set_bits(word_at(arena, set, level - 1, index / 64), UINT64_C(1) << index % 64);
                index /= 64;''', '''                if (shm_or_sc(word_at(arena, set, level - 1, index / 64), UINT64_C(1) << index % 64) >> index % 64 & 1)
                        break;
                index /= 64;'''),
    ('set add: bits read before the slab word is changed', 'set', 'tests/model/case/set.h',
     '''        if (change(actor, slab, SLAB_UNCOMMITTED, SLAB_FREE))
                shm_set_add(&world_arena, SHM_SET_FREE, slab);''', '''        bool has = shm_set_has(&world_arena, SHM_SET_FREE, slab);
        if (change(actor, slab, SLAB_UNCOMMITTED, SLAB_FREE) && !has)
                shm_set_add(&world_arena, SHM_SET_FREE, slab);'''),
    ('set remove: slab word not read again', 'set', 'shm/slab/set.c',
     'uint64_t back = set_wanted_bits(arena, set, group, mask);', 'uint64_t back = 0;'),
    ('set remove: slab word read before the clear', 'set', 'shm/slab/set.c',
     '''        uint64_t old = shm_and_sc(word_at(arena, set, leaf, group), ~mask);
        uint64_t back = set_wanted_bits(arena, set, group, mask);''', '''        uint64_t back = set_wanted_bits(arena, set, group, mask);
        uint64_t old = shm_and_sc(word_at(arena, set, leaf, group), ~mask);'''),
    ('set remove: child word not read again', 'set', 'shm/slab/set.c',
     'if (shm_load_acq(word_at(arena, set, level + 1, child)) != 0) {', 'if (0) {'),
    ('set remove: child set again at one level only', 'set', 'shm/slab/set.c',
     '''                        add_above(arena, set, level + 1, child);
                        return;''', '''                        shm_or_sc(word_at(arena, set, level, index), mask);
                        return;'''),
    ('set repair: leaf only', 'set', 'shm/slab/set.c',
     '''                if (shm_load_acq(word_at(arena, set, level, index)) != 0)
                        add_above(arena, set, level, index);''', ''),
    ('sums: a slab changes, and has no mark', 'sums', 'shm/slab/slab.c',
     '        shm_changed_mark(actor->arena, slab);\n', ''),
    ('sums: the mark is set before the slab changes', 'sums', 'shm/slab/slab.c',
     '''                r = slab_request_apply(actor->arena, request, old, &new);
                if (r) {''', '''                r = slab_request_apply(actor->arena, request, old, &new);
                if (!r)
                        shm_changed_mark(actor->arena, slab);
                if (r) {''',
     '        shm_changed_mark(actor->arena, slab);\n        if (request->op', '        if (request->op'),
    ('sums: repair sets no mark', 'sums', 'shm/maintain/hints.c', '        shm_changed_mark(arena, slab);\n', ''),
    ('sums: the mark is cleared after the slabs are counted', 'sums', 'shm/stats/slab-sums.c',
     '''                        shm_changed_take(sums->arena, walk->group);
                        sum_group(sums, walk->group++);''',
     '''                        sum_group(sums, walk->group);
                        shm_changed_take(sums->arena, walk->group++);'''),
    ('set words changed by load and store', 'set', 'shm/slab/set.c',
     '                shm_or_sc(word, mask); /*', '''                shm_store_rel(word, shm_load_acq(word) | mask); /*'''),
    ('claim: intent not written', 'claim-claim', 'shm/slab/slab.c',
     '''        if (!intended)
                shm_actor_intend(actor, shm_intent_other(SHM_INTENT_CLAIM, slab, 0));
''', ''),
    ('claim: mask not rewritten at a retry', 'claim-claim', 'shm/slab/slab.c',
     '''        shm_actor_intend_mask(actor, request->mask);
''', '''        if (!intended)
                shm_actor_intend_mask(actor, request->mask);
'''),
    ('claim: intent stays after a refusal', 'free', 'shm/slab/slab.c',
     '''                        if (intended)
                                shm_actor_intend(actor, 0);
''', ''),
    ('claim: intent written after the compare-and-set', 'claim-claim', 'shm/slab/slab.c',
     '''        if (!intended)
                shm_actor_intend(actor, shm_intent_other(SHM_INTENT_CLAIM, slab, 0));
''', '', '''        if (request->op >= SLAB_OP_CLAIM)
''', '''        if (slab_request_claims(request))
                shm_actor_intend(actor, shm_intent_other(SHM_INTENT_CLAIM, slab, 0));
        if (request->op >= SLAB_OP_CLAIM)
'''),
    ('claim: word by a plain store', 'claim-claim', 'shm/slab/slab.c',
     '} while (!shm_pair_cas_acqrel(word, &old, new));',
     '} while (slab_request_claims(request) ? ({ shm_step(word); *word = new; false; }) : !shm_pair_cas_acqrel(word, &old, new));'),
    ('claim: state ignored', 'pages', 'shm/format/slab-word.c',
     '''        if (state != SLAB_FREE && state != SLAB_PARTIAL)
                return SLAB_E_REFUSED;

        r = slab_word_take_slots(w, key''', '''        (void) state;
        r = slab_word_take_slots(w, key'''),
    ('claim: key ignored', 'claim-claim', 'shm/format/slab-word.c',
     '(w.high & SLAB_KEY_MASK) != key', '0'),
    ('claim: class and epoch compared, era not', 'drain', 'shm/format/slab-word.c',
     '(w.high & SLAB_KEY_MASK) != key', '((w.high ^ key) & SLAB_KEY_MASK & 0x3ff0) != 0'),
    ('free: tag by a plain store', 'free', 'shm/cache/uncached.c',
     'if (shm_cas_acqrel(shm_slot_tag(actor->arena, id), &expected, tag + 1)) {', 'if (shm_load_acq(shm_slot_tag(actor->arena, id)) == expected && ({ shm_store_rel(shm_slot_tag(actor->arena, id), tag + 1); true; })) {'),
    ('free: intent not written', 'free', 'shm/cache/uncached.c',
     '''        shm_actor_intend(actor, shm_intent_free(tag, id));
''', ''),
    ('free: intent cleared before the give-back', 'free', 'shm/cache/uncached.c',
     '                r = shm_slab_free_slots(actor, slot_id_slab(id), slot_id_mask(id)) == 0 ? 0 : -EUCLEAN;', '''                shm_actor_intend(actor, 0);
                r = shm_slab_free_slots(actor, slot_id_slab(id), slot_id_mask(id)) == 0 ? 0 : -EUCLEAN;'''),
    ('free: slot given back before the tag is even', 'free', 'shm/cache/uncached.c',
     '        if (shm_cas_acqrel(shm_slot_tag(actor->arena, id), &expected, tag + 1)) {',
     '''        if (shm_load_acq(shm_slot_tag(actor->arena, id)) == tag &&
            shm_slab_free_slots(actor, slot_id_slab(id), slot_id_mask(id)) == 0) {''',
     '                r = shm_slab_free_slots(actor, slot_id_slab(id), slot_id_mask(id)) == 0 ? 0 : -EUCLEAN;',
     '''                r = shm_cas_acqrel(shm_slot_tag(actor->arena, id), &expected, tag + 1) ? 0 : -ESTALE;'''),
    ('alloc: TAKE not written, CLAIM cleared', 'claim-claim', 'shm/cache/uncached.c',
     '        shm_actor_intend(actor, shm_intent_take(value, id));', '        shm_actor_intend(actor, 0);'),
    ('alloc: TAKE cleared before the tag is odd', 'claim-claim', 'shm/cache/uncached.c',
     '''                shm_store_rel(tag, value);
''', '''                shm_actor_intend(actor, 0), shm_store_rel(tag, value);
'''),
    ('hint: PARTIAL left out', 'free', 'shm/slab/slab.c',
     'if (to == SLAB_PARTIAL && from != SLAB_PARTIAL)', 'if (0)'),
    ('hint: FREE left out', 'free', 'shm/slab/slab.c',
     '''                shm_set_add(arena, SHM_SET_FREE, slab);
''', ''),
    ('hint: of_epoch left out', 'drain', 'shm/slab/slab.c',
     '''                shm_set_add(arena, shm_set_of_epoch(arena, epoch), slab);
''', ''),
    ('search: stale bit removed without an intent', 'free', 'shm/slab/search.c',
     '''        shm_actor_intend(actor, shm_intent_other(SHM_INTENT_SLAB, slab, 0));
        shm_set_remove''', '        shm_set_remove'),
    ('client: enters whatever the entry is by then', 'client/enter-give-away', 'shm/arena/client.c',
     'return shm_cas_acqrel(&c->word, &word, entered);', 'return client_take_edge(arena, client, CLIENT_EV_ENTER);'),
    ('client: the program is not compared', 'client/enter-give-away', 'shm/arena/client.c',
     'shm_load_rlx(&c->program) != program)', 'false)'),
    ('client: given up by a plain store', 'client/enter-give-up', 'shm/arena/client.c',
     'if (shm_cas_acqrel(word, &old, new))', 'if (shm_store_rel(word, new), true)'),
    ('client: references are given back by a plain store', 'client/unref-unref', 'shm/arena/client.c',
     '(void) shm_and_sc(&arena->clients[client].holds, ~(UINT64_C(1) << id));',
     'shm_store_rlx(&arena->clients[client].holds, arena->clients[client].holds & ~(UINT64_C(1) << id));'),
    ('client: references are noted by load and store', 'client/ref-unref-other', 'shm/arena/client.c',
     '(void) shm_or_sc(&arena->clients[client].holds, UINT64_C(1) << id);',
     '''uint64_t holds = shm_load_rlx(&arena->clients[client].holds);
        shm_store_rlx(&arena->clients[client].holds, holds | UINT64_C(1) << id);'''),
    ('client: references to earlier eras count', 'client/ref-reopen', 'shm/arena/client.c',
     'shm_load_rlx(client_era(arena, client, id)) == number >> 8;', 'true;'),
    ('client: references to earlier eras count, for the last to leave', 'client/ref-unref-reopen', 'shm/arena/client.c',
     'shm_load_rlx(client_era(arena, client, id)) == number >> 8;', 'true;'),
    ('client: the first era to which a process had references stays', 'client/ref-unref-reopen-held',
     'shm/arena/client.c', '        shm_store_rlx(client_era(arena, client, id), number >> 8);\n',
     '''        if (shm_load_rlx(client_era(arena, client, id)) == 0)
                shm_store_rlx(client_era(arena, client, id), number >> 8);
'''),
    ('client: the era of a reference is noted after the bit', 'client/ref-ref', 'shm/arena/client.c',
     '        shm_store_rlx(client_era(arena, client, id), number >> 8);\n', '',
     '''        (void) shm_or_sc(&arena->clients[client].holds, UINT64_C(1) << id);
''', '''        (void) shm_or_sc(&arena->clients[client].holds, UINT64_C(1) << id);
        shm_store_rlx(client_era(arena, client, id), number >> 8);
'''),
    ('root: an entry is taken by a plain store', 'root/make-make-other', 'shm/arena/root.c',
     """        return shm_pair_cas_acqrel(&arena->header->roots[i].word, expected,
                                   (ShmPair){ .low = hash, .high = handle });""",
     """        shm_store_rel(&arena->header->roots[i].hash, hash);
        shm_store_rel(&arena->header->roots[i].handle, handle);
        return true;"""),
    ('root: a name is found in an entry that another has by now', 'root/unset-get-other', 'shm/arena/root.c',
     """        return shm_pair_load_acq(&arena->header->roots[i].word); /* ORDER: acq; as above. */""",
     """        uint64_t high = shm_load_acq(&arena->header->roots[i].handle);
        return (ShmPair){ .low = shm_load_acq(&arena->header->roots[i].hash), .high = high };"""),
    ('root: the note is dropped before the object is named', 'root/make-make', 'tests/model/case/root.h',
     'int r = shm_root_set(', 'int r = (shm_actor_unnote(a, handle), shm_root_set)('),
    ('rollback: objects that a root names are freed', 'root/make-make', 'shm/map/trie/trie-walk.c',
     'return shm_root_names(arena, handle);', 'return shm_root_names == NULL;'),
    ('sparse: slots of sparse slabs are cached by the slow path', 'sparse/free-free', 'shm/cache/cache.c',
     '.key == (w.high & SLAB_CACHED_MASK)', '.key == (w.high & SLAB_KEY_MASK)'),
    ('sparse: slots of sparse slabs are cached by the fast path', 'sparse/free-free', 'shm/cache/cache-hit.h',
     '(state & SLAB_CACHED_MASK) != place->key', '(state & SLAB_KEY_MASK) != place->key'),
    ('idle: a thread that moved is emptied', 'unit-idle', 'shm/arena/idle.c',
     'idle->seqs[record] == seq', 'true'),
    ('idle: a thread inside an operation is emptied', 'unit-idle', 'shm/arena/idle.c',
     'same && !(seq & 1) &&', 'same &&'),
    ('idle: the last caches are not looked at', 'unit-idle', 'shm/arena/idle.c',
     '(shm_arena_n_caches(arena) + 63) / 64', '(arena->n_epochs * arena->n_classes + 63) / 64'),
    ('freeze: caches of a thread that goes on are forgotten', 'maintain/trim-pop-free', 'shm/maintain/freeze.c',
     '''                forget_caches(arena, record);
        freeze_clear_bit(arena, record);
''', '''                freeze_clear_bit(arena, record), forget_caches(arena, record);
        freeze_clear_bit(arena, record);
'''),
    ('freeze: caches are marked as unused when the thread goes on', 'maintain/trim-pop-free', 'shm/maintain/freeze.c',
     '''        freeze_clear_bit(arena, record);
        if (is_left''', '''        freeze_clear_bit(arena, record);
        for (uint32_t i = 0; i < SHM_CACHES_MAX / 64; i++)
                shm_store_rel(&shm_arena_record(arena, record)->used[i], 0);
        if (is_left'''),
    ('freeze: caches are forgotten though only an epoch was emptied', 'unit-cache', 'shm/maintain/freeze.c',
     'if (freeze->walk_epochs == UINT64_MAX)\n                forget', 'if (1)\n                forget'),
    ('idle: all threads are frozen for one', 'unit-idle', 'shm/maintain/freeze.c',
     'if (!only || only[i / 64] >> i % 64 & 1)', 'if (true)'),
    ('idle: membarrier left out', 'cache/idle-free-late', 'shm/maintain/freeze.c',
     '                seen_usec = freeze_barrier(control, &r);', '                seen_usec = 0, r = 0;'),
    ('sparse: as at the last free, whatever was claimed since', 'sparse', 'shm/format/slab-word.c',
     'w.high &= ~(SLAB_STATE_MASK | SLAB_SPARSE | SLAB_HOLDER_MASK);', 'w.high &= ~(SLAB_STATE_MASK | SLAB_HOLDER_MASK);'),
    ('settle: an empty slab stays PARTIAL', 'free', 'shm/format/slab-word.c',
     '''        if (empty) {
                w.low = 0;''', '''        if (empty && state == SLAB_DRAINING) {
                w.low = 0;'''),
    ('release: state ignored', 'hold', 'shm/format/slab-word.c',
     '''        if (slab_word_state(w) != SLAB_ACTIVE)
                return SLAB_E_REFUSED;

        *ret = slab''', '        *ret = slab'),
    ('hold: holder ignored', 'hold', 'shm/format/slab-word.c',
     '''!held_by(w, SLAB_ACTIVE, holder))
                return SLAB_E_REFUSED;

        r = slab_word_take_slots''', '''state != SLAB_ACTIVE)
                return SLAB_E_REFUSED;

        r = slab_word_take_slots'''),
    ('pages: drop ignores state', 'pages', 'shm/slab/slab.c',
     '''                return slab_word_state(old) != request->from ? SLAB_E_REFUSED
                                                             : slab_word_begin(old, request->holder, ret);
''', '''                if (slab_word_begin(old, request->holder, ret)) {
                        *ret = old;
                        ret->high = (old.high & ~SLAB_STATE_MASK) | SLAB_BUSY;
                        ret->low = 0;
                }
                return 0;
'''),
    ('pages: drop without an intent', 'pages', 'shm/slab/pages.c',
     '''        shm_actor_intend(control, shm_intent_other(SHM_INTENT_RUN, group * 64, 64));
''', ''),
    ('pages: extend without an intent', 'pages', 'shm/slab/pages.c',
     '''                shm_actor_intend(actor, shm_intent_other(SHM_INTENT_RUN, slab, n));
''', ''),
    ('pages: find_dropped names no slab', 'pages', 'shm/slab/pages.c',
     '''                length = 1;
''', ''),
    ('pages: dropped after the word says so', 'pages', 'shm/slab/pages.c',
     '''                punch_group(arena, group, taken);
                end_group(control, group, held);
''', '''                end_group(control, group, held);
                punch_group(arena, group, taken);
'''),
    ('pages: n_slabs_ever by a plain store', 'pages', 'shm/slab/pages.c',
     '!shm_cas_acqrel(&arena->header->n_slabs_ever.value, &ever, (uint64_t) slab + n)', '({ shm_store_rel(&arena->header->n_slabs_ever.value, (uint64_t) slab + n); false; })'),
    ('pages: extend forgets what others began', 'pages', 'shm/slab/pages.c',
     '''        add_run(arena, SHM_SET_UNCOMMITTED, slab + *ret_n, n - *ret_n);
''', ''),
    ('pages: uncommitted hint left out in drop', 'pages', 'shm/slab/pages.c',
     '        shm_set_add_mask(control->arena, SHM_SET_UNCOMMITTED, group, held);\n', ''),
    ('free count: a thread adds its slabs to what was counted before', 'pages/recount', 'shm/slab/free-count.c',
     'shm_hint_add(&arena->header->n_free.value, count->n - count->before);', 'shm_store_rel(&arena->header->n_free.value, count->n);'),
    ('tags: hints of the slabs beside are left out', 'tags/drop-free-alone', 'shm/slab/pages.c',
     'end_group(control, group, held);\n                shm_set_remove_mask',
     'end_group(control, group, taken);\n                shm_set_remove_mask'),
    ('tags: no floor', 'tags/drop-free', 'shm/slab/tags.c',
     '        shm_store_rel(floor, new); /* ORDER: rel; the tags were read before, and go after it. */\n', ''),
    ('tags: the floor is the earliest', 'tags/drop-free', 'shm/slab/tags.c',
     '(first + (uint32_t) high + 1) & ~TAGS_COUNT', 'first + (uint32_t) low'),
    ('tags: their page goes before the floor counts', 'tags/drop-free-alone', 'shm/slab/pages.c',
     '        uint64_t away = 0;\n', '''        uint64_t away = 0;

        if ((held & tags_page_mask(0)) == tags_page_mask(0))
                shm_pages_punch(arena, &arena->tags[group * 64], SHM_TAGS_PER_PAGE * sizeof(ShmTags));
'''),
    ('tags: their page goes though another slab is in use', 'tags/drop-free-alone', 'shm/slab/pages.c',
     '(away & tags_page_mask(end)) == tags_page_mask(end)', '(away & tags_page_mask(end))'),
    ('tags: slabs beside are not held', 'tags/surplus', 'shm/slab/pages.c',
     'held = begin_group(control, slab / 64, tags_page_mask(slab), SLAB_UNCOMMITTED);', 'held = tags_page_mask(slab);'),
    ('tags: sharers are not held', 'tags/drop-free-alone', 'shm/slab/pages.c',
     'sharers |= begin_group(control, group, page & ~taken, SLAB_UNCOMMITTED);', 'sharers |= page & ~taken;'),
    ('tags: they count before they are stored', 'tags/gone-gone', 'shm/slab/tags.c',
     '''        for (uint32_t i = 0; i < n_tags(arena); i++)
                shm_store_rlx(''', '''        shm_store_rel(at, floor | TAGS_COUNT);
        for (uint32_t i = 0; i < n_tags(arena); i++)
                shm_store_rlx('''),
    ('tags: not brought back', 'tags/gone-get', 'shm/slab/pages.c',
     '                bring_back_run(arena, slab, done);\n', ''),
    ('tags: brought back when the slab is FREE', 'tags/gone-get', 'shm/slab/pages.c',
     '''                bring_back_run(arena, slab, done);
                end_run(actor, slab, done, SLAB_FREE);
''', '''                end_run(actor, slab, done, SLAB_FREE);
                bring_back_run(arena, slab, done);
'''),
    ('tags: all of them are stored, though they count', 'meson:unit-tags/test_far_apart', 'shm/slab/tags.c',
     '        if (floor & TAGS_COUNT)\n                return;\n', '        floor &= ~TAGS_COUNT;\n'),
    ('tags: the floor is the largest number', 'meson:unit-tags/test_floor_wraps', 'shm/slab/tags.c',
     '(int32_t) ((uint32_t) (pair >> 32) - first)', '(int32_t) ((uint32_t) (pair >> 32) / 2 - first / 2)'),
    ('tags: an uncommitted slab is looked at', 'meson:unit-tags/test_go_and_come', 'shm/cache/lookup.h',
     '        if (slab_word_state((SlabWord){ .high = state }) == SLAB_UNCOMMITTED)\n                return -ESTALE;\n', ''),
    ('tags: a floor for any spread', 'meson:unit-tags/test_far_apart', 'shm/slab/tags.c',
     '        if ((int64_t) high - low > SPREAD_MAX)\n                return false;\n', ''),
    ('drain: of_epoch removed without reading again', 'drain', 'shm/maintain/drain.c',
     '''shm_set_remove_mask(control->arena, shm_set_of_epoch(control->arena, drain->epoch), group,
                                    gone);''',
     'shm_and_sc(control->arena->sets + shm_set_of_epoch(control->arena, drain->epoch) * control->arena->shape.stride + group, ~gone);'),
    ('drain: of_epoch removed without an intent', 'drain', 'shm/maintain/drain.c',
     '''                shm_actor_intend(control, shm_intent_other(SHM_INTENT_RUN, group * 64, 64));
''', ''),
    ('drain: no intent', 'drain', 'shm/maintain/drain.c',
     '''        shm_actor_intend(control, shm_intent_other(SHM_INTENT_SLAB, slab, 0));
''', ''),
    ('drain: word by a plain store', 'drain', 'shm/slab/slab.c',
     '} while (!shm_pair_cas_acqrel(word, &old, new));',
     '} while (request->op == SLAB_OP_DRAIN ? ({ shm_step(word); *word = new; false; }) : !shm_pair_cas_acqrel(word, &old, new));'),
    ('drain: epoch stays open', 'drain', 'shm/format/epoch-word.c',
     'w.state = (ShmEpochState) to;', 'w.state = event == SHM_EPOCH_EV_CLOSE ? w.state : (ShmEpochState) to;'),
    ('drain: slab drains that is another epoch\'s by now', 'drain/drain-reused', 'shm/format/slab-word.c',
     '''        if ((w.high & SLAB_KEY_MASK) != key)
                return SLAB_E_REFUSED;

        *ret = slab_word_settle(with_state(w, SLAB_DRAINING''', '        *ret = slab_word_settle(with_state(w, SLAB_DRAINING'),
    ('drain: a walk that is not the last stores DRAINED', 'drain', 'shm/maintain/drain.c',
     'if (drain->final && shm_epoch_get', 'if (shm_epoch_get'),
    ('cache: FREE not written', 'cache', 'shm/cache/cache-hit.h',
     '''        shm_store_rel(&record->intent_what, bits | shm_intent_free(0, (SlotId){ 0 }));
''', ''),
    ('batch: FREE of a run of one not written', 'batch/scattered-free', 'shm/cache/cache-hit.h',
     '''        shm_store_rel(&record->intent_what, bits | shm_intent_free(0, (SlotId){ 0 }));
''', ''),
    ('cache: FREE cleared before the push', 'cache', 'shm/cache/cache-hit.h',
     '        shm_store_rel(&cache->slots[n], id);', '''        shm_actor_intend(actor, 0);
        shm_store_rel(&cache->slots[n], id);'''),
    ('cache: count raised before the slot is there', 'cache', 'shm/cache/cache-hit.h',
     '''        shm_store_rel(&cache->slots[n], id);
        shm_store_rel(&cache->count, n + 1);''', '''        shm_store_rel(&cache->count, n + 1);
        shm_actor_intend(actor, 0);
        shm_store_rel(&cache->slots[n], id);'''),
    ('cache: tag by a plain store', 'cache', 'shm/cache/cache-hit.h',
     '!shm_cas_acqrel(&actor->tags[id], &tag, tag + 1)', 'shm_load_acq(&actor->tags[id]) != tag || ({ shm_store_rel(&actor->tags[id], tag + 1); false; })'),
    ('cache: count lowered before the tag is odd', 'cache', 'shm/cache/cache-hit.h',
     '''        shm_store_rel(&actor->tags[id], tag);
        shm_store_rel(&cache->count, n); /* ORDER: rel; after the tag. */''', '''        shm_store_rel(&cache->count, n);
        shm_store_rel(&actor->tags[id], tag);'''),
    ('cache: tag of the slot freed last not checked', 'unit-cache', 'shm/cache/cache-hit.h',
     'if (shm_likely(shm_load_rlx(&actor->tags[(uint32_t) bits]) + 1 == tag)) {', '{'),
    ('cache: place of the slot freed last kept where epochs change', 'unit-cache', 'shm/cache/cache.c',
     '        actor->freed_key = UINT64_MAX;\n', ''),
    ('cache: key of a closed epoch that a slab may have', 'unit-cache', 'shm/cache/cache.c',
     'slab_key(class, epoch, era) : UINT32_MAX,', 'slab_key(class, epoch, era) : 0,'),
    ('tags: those that stay go', 'meson:unit-tags/test_first_stay', 'shm/slab/pages.c',
     'rest = held & ~tags_that_stay(arena, group); rest', 'rest = held; rest'),
    ('tags: a run has pages if one slab has', 'tags', 'shm/slab/tags.c', 'n == 0;', 'true;'),
    ('cache: keys of places are zeros before there are caches', 'unit-cache', 'shm/arena/record.c',
     'memset(actor->places, 0xff,', 'memset(actor->places, 0,'),
    ('cache: the key of the last free is zeros before there are caches', 'unit-cache', 'shm/arena/record.c',
     'actor->freed_key = UINT64_MAX;', ''),
    ('cache: attention not compared', 'cache', 'shm/cache/cache-hit.h',
     '''shm_load_acq(&record->attention) != shm_peek_rlx(&actor->attention) ||
                         size - 1''', 'size - 1'),
    ('cache: seq made odd after attention is read', 'cache', 'shm/cache/cache-hit.h',
     '''        ShmCache *cache;

        shm_record_enter(record);
''', '''        ShmCache *cache;
        uint64_t seen = shm_load_acq(&record->attention);

        shm_record_enter(record);
''', '''shm_load_acq(&record->attention) != shm_peek_rlx(&actor->attention) ||
                         size - 1''', 'seen != actor->attention || size - 1'),
    ('batch: handles are stored while their slots are in the cache', 'batch/alloc-found', 'shm/cache/batch.c',
     '''        batch_make_all_live(actor, cache, count, bits, (uint32_t) n);
''', '''        batch_make_all_live(actor, cache, count, bits, (uint32_t) n);
        for (size_t i = 0; i < n; i++)
                ret_handles[i] = bits[i] ^ actor->handle_bits;
'''),
    ('batch: CLAIM not written', 'batch', 'shm/cache/batch.c',
     '''        shm_actor_intend(actor, shm_intent_other(SHM_INTENT_CLAIM, run->slab, 0));
''', ''),
    ('batch: CLAIM names the first slot only', 'batch', 'shm/cache/batch.c',
     'shm_actor_intend_mask(actor, run->mask);', 'shm_actor_intend_mask(actor, run->mask & -run->mask);'),
    ('batch: CLAIM cleared before the slots are in the cache', 'batch', 'shm/cache/batch.c',
     '''        if (done > 0 && cache) {
''', '''        if (done > 0 && cache) {
                shm_actor_intend(actor, 0);
'''),
    ('batch: CLAIM cleared before the slots are free in the slab', 'batch', 'shm/cache/batch.c',
     '''                (void) shm_slab_free_slots(actor, run->slab, freed);
''', '''                shm_actor_intend(actor, 0);
                (void) shm_slab_free_slots(actor, run->slab, freed);
'''),
    ('batch: slots of objects that were stale go to the slab', 'unit-batch', 'shm/cache/batch.c',
     'shm_slab_free_slots(actor, run->slab, freed);', 'shm_slab_free_slots(actor, run->slab, run->mask);'),
    ('batch: tags of neighbours by plain stores', 'batch', 'shm/cache/batch.c',
     'while (!shm_pair_cas_acqrel(pair, &old, new));',
     'while (({ shm_store_rel(&pair->low, new.low); shm_store_rel(&pair->high, new.high); false; }));'),
    ('batch: tags become odd from the bottom up', 'batch', 'shm/cache/batch.c',
     'ret_bits[i] = batch_make_live(actor, batch_slot(cache, count, i))',
     'ret_bits[i] = batch_make_live(actor, batch_slot(cache, count, n - 1 - i))'),
    ('batch: tags of objects with their bytes become odd from the bottom up', 'map-chain', 'shm/cache/batch.c',
     'ret_bits[i] = batch_make_live(actor, batch_slot(cache, count, i))',
     'ret_bits[i] = batch_make_live(actor, batch_slot(cache, count, n - 1 - i))'),
    ('batch: count lowered before the tags are odd', 'batch', 'shm/cache/batch.c',
     '        batch_make_all_live(actor, cache, count, bits, (uint32_t) n);\n',
     '''        shm_cache_set_count(cache, count - (uint32_t) n);
        batch_make_all_live(actor, cache, count, bits, (uint32_t) n);
'''),
    ('batch: count lowered before the tags of objects with their bytes are odd', 'batch/fill', 'shm/cache/batch.c',
     '                batch_make_all_live(actor, cache, count, bits, n);\n',
     '                shm_cache_set_count(cache, count - n);\n                batch_make_all_live(actor, cache, count, bits, n);\n'),
    ('batch: objects with their bytes are made of a frozen cache', 'batch/fill-freeze', 'shm/cache/batch.c',
     'cache = batch_cache_for(actor, fill->size, epoch);',
     'cache = actor->sizes[(fill->size - 1) / SHM_CLASS_GRANULE].cache;'),
    ('batch: objects with their bytes are made, and no membarrier shows it', 'batch/fill-freeze-late', 'shm/maintain/freeze.c',
     'return membarrier_call(MEMBARRIER_CMD_PRIVATE_EXPEDITED);', 'return 0;'),
    ('batch: allocates, and no membarrier shows it', 'batch/alloc-freeze-late', 'shm/maintain/freeze.c',
     'return membarrier_call(MEMBARRIER_CMD_PRIVATE_EXPEDITED);', 'return 0;'),
    ('batch: frees, and no membarrier shows it', 'batch/free-freeze-late', 'shm/maintain/freeze.c',
     'return membarrier_call(MEMBARRIER_CMD_PRIVATE_EXPEDITED);', 'return 0;'),
    ('batch: tags are read again once the count is lowered', 'batch-revoke/alloc-reuse', 'shm/cache/batch.c',
     '                ret_handles[i] = bits[i] ^ actor->handle_bits;',
     '''                ret_handles[i] = ((uint64_t) shm_load_rlx(&actor->tags[(uint32_t) bits[i]]) << 32 |
                                  (uint32_t) bits[i]) ^ actor->handle_bits;'''),
    ('close: a revocation is over though a dead thread may name slabs of it', 'revoke-cache/marked-take',
     'shm/maintain/close.c', 'if (close->walk.final && close->revoke.kept == 0)',
     'if (close->n_pending == 0 && close->revoke.kept == 0)'),
    ('close: the same, as a lease ends', 'lease/dead-uncached',
     'shm/maintain/close.c', 'if (close->walk.final && close->revoke.kept == 0)',
     'if (close->n_pending == 0 && close->revoke.kept == 0)'),
    ('batch: attention not compared', 'batch', 'shm/cache/batch.c',
     'return shm_load_acq(&actor->record->attention) == shm_peek_rlx(&actor->attention);', 'return true;'),
    ('batch: attention not compared, as a lease ends', 'lease/batch', 'shm/cache/batch.c',
     'return shm_load_acq(&actor->record->attention) == shm_peek_rlx(&actor->attention);', 'return true;'),
    ('batch: CLAIM not written, beside a trim', 'maintain/trim-batch-free', 'shm/cache/batch.c',
     '''        shm_actor_intend(actor, shm_intent_other(SHM_INTENT_CLAIM, run->slab, 0));
''', ''),
    ('trim: caches of threads inside a batch are emptied', 'maintain/trim-batch-alloc', 'shm/maintain/freeze.c',
     '        return freeze->seq[record] & 1 &&', '        return 0 &&'),
    ('trim: slabs are dropped after their words say so, beside a map', 'map-trim/insert', 'shm/slab/pages.c',
     '''                punch_group(arena, group, taken);
                end_group(control, group, held);
''', '''                end_group(control, group, held);
                punch_group(arena, group, taken);
'''),
    ('batch: words name the slots in the order of the cache', 'map-chain/put-get-cached', 'shm/cache/batch.c',
     '''                batch_sort(bits, n);
                batch_name(actor, bits, fill, n);
''', '''                batch_name(actor, bits, fill, n);
                batch_sort(bits, n);
'''),
    ('cache: its room grows more than its capacity', 'room/grow', 'shm/cache/capacity.c',
     'shm_store_rlx(&cache->room, cache->capacity);', 'shm_store_rlx(&cache->room, 2 * cache->capacity);'),
    ('cache: it does not grow', 'room/grow', 'shm/cache/capacity.c', '(alternates || lively) && may_grow(actor, cache)', '0'),
    ('cache: it grows, and frees find no more room', 'room/grow', 'shm/cache/capacity.c',
     'if (cache->free.bypass == 0)', 'if (0)'),
    ('cache: shortened, the capacity before the room', 'room/shorten-alloc', 'shm/cache/cache.c',
     '''        if (shm_load_rlx(&cache->room) != 0) /* ORDER: rlx; ours alone. */
                shm_store_rlx(&cache->room, cache->capacity / 2); /* ORDER: rlx; ours alone. */
        shm_compiler_barrier(); /* the room never exceeds the capacity, even if the thread dies here */
        cache->capacity /= 2;
''', '''        cache->capacity /= 2;
        if (shm_load_rlx(&cache->room) != 0)
                shm_store_rlx(&cache->room, cache->capacity);
'''),
    ('cache: shortened, and frees go past it no more', 'room/shorten-bypass', 'shm/cache/cache.c',
     '        if (shm_load_rlx(&cache->room) != 0) /* ORDER: rlx; ours alone. */\n', ''),
    ('cache: shortened while it is frozen', 'freeze-repair/shorten', 'shm/cache/cache.c',
     'if (cache_is_ours(actor) && place->key == key)', 'if (place->key == key)'),
    ('cache: fill clears CLAIM before the count', 'cache', 'shm/cache/cache.c',
     '''        shm_cache_set_count(cache, n + n_new);
        shm_actor_intend(actor, 0);''', '''        shm_actor_intend(actor, 0);
        shm_cache_set_count(cache, n + n_new);'''),
    ('cache: held slab forgotten', 'cache', 'shm/cache/cache.c',
     'shm_store_rlx(&cache->held, found.slab + 1);', '(void) 0;'),
    ('cache: flush without FLUSH', 'cache', 'shm/cache/cache-drain.c',
     '''        shm_actor_intend(actor, shm_intent_other(SHM_INTENT_FLUSH, record, index << 9 | k));
''', ''),
    ('cache: flush lowers the count first', 'cache', 'shm/cache/cache-drain.c',
     '''        n_words = cache_free_slots(actor, cache->slots + (n - k), k);
        shm_cache_set_count(cache, n - k);''', '''        shm_cache_set_count(cache, n - k);
        n_words = cache_free_slots(actor, cache->slots + (n - k), k);'''),
    ('cache: flush clears FLUSH before the count', 'cache', 'shm/cache/cache-drain.c',
     '''        shm_cache_set_count(cache, n - k);
        shm_actor_intend(actor, 0);''', '''        shm_actor_intend(actor, 0);
        shm_cache_set_count(cache, n - k);'''),
    ('cache: held slab released without an intent', 'cache', 'shm/cache/cache-drain.c',
     '''                shm_actor_intend(actor, shm_intent_other(SHM_INTENT_SLAB, slab, 0));
''', ''),
    ('refs: the intent is not read a second time', 'unit-repair-race', 'shm/maintain/refs.c',
     '                gather_intent(refs, shm_record_intent(refs->arena, refs->record));\n', ''),
    ('claim: gen stays', 'unit-repair-race', 'shm/format/slab-word.c',
     '''        w.low |= mask;
        w.high += SLAB_GEN_ONE;''', '        w.low |= mask;'),
    ('freeze: no membarrier', 'cache', 'shm/maintain/freeze.c',
     'return membarrier_call(MEMBARRIER_CMD_PRIVATE_EXPEDITED);', 'return 0;'),
    ('freeze: no membarrier where another process does control work', 'cache/freeze-free-other-late', 'shm/maintain/freeze.c',
     'return membarrier_call(MEMBARRIER_CMD_GLOBAL_EXPEDITED);', 'return 0;'),
    ('freeze: stores on processors that membarrier leaves out are not waited for', 'cache/freeze-free-left-out',
     'shm/maintain/freeze.c', 'if (now_usec < *seen) {', 'if (0) {'),
    ('freeze: the same beside a batch', 'batch/alloc-freeze-left-out', 'shm/maintain/freeze.c',
     'if (now_usec < *seen) {', 'if (0) {'),
    ('freeze: the time is over at once', 'cache/freeze-free-left-out', 'shm/maintain/freeze.c',
     'return shm_monotonic_usec() + SHM_STORES_USEC;', 'return shm_monotonic_usec();'),
    ('freeze: seq is not read again once the time is over', 'cache/freeze-free-left-out', 'shm/maintain/freeze.c',
     '        read_seq(arena, freeze, record);\n        *seen = 0;', '        *seen = 0;'),
    ('freeze: other processes are not looked for', 'cache/freeze-free-left-out', 'shm/maintain/freeze.c',
     'if (owner.state == SHM_RECORD_USED && owner.client + 1 != control->process)', 'if (0)'),
    ('freeze: the next maintainer does not wait for the time of the one before', 'cache/handed-free-left-out',
     'shm/maintain/freeze.c', 'return shm_monotonic_usec() + (left < SHM_STORES_USEC ? left : SHM_STORES_USEC);',
     'return shm_monotonic_usec();'),
    ('freeze: the next maintainer counts a freeze as seen at once', 'cache/handed-free-left-out',
     'shm/maintain/freeze.c', 'freeze->seen_usec[record] = load_seen(arena, record);', 'freeze->seen_usec[record] = 0;'),
    ('freeze: idle threads, and the same', 'cache/idle-free-left-out', 'shm/maintain/freeze.c',
     'if (now_usec < *seen) {', 'if (0) {'),
    ('close: slots are collected before left-out processors show their guards', 'map-denied/index-put-left-out',
     'shm/maintain/close.c', 'return now_usec >= close->fence_usec;', 'return true;'),
    ('freeze: nothing is waited for on real processors', 'meson:stress-membarrier/test_membarrier_other_process',
     'shm/maintain/freeze.c', '''        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
                ;
''', '        (void) end;\n'),
    ('tslab_close: a membarrier that leaves out processors', 'meson:stress-membarrier/test_membarrier_own',
     'shm/maintain/freeze.c', 'return membarrier_call(MEMBARRIER_CMD_PRIVATE_EXPEDITED);',
     'return membarrier_call(MEMBARRIER_CMD_GLOBAL_EXPEDITED);'),
    ('freeze: seq ignored', 'cache', 'shm/maintain/freeze.c',
     '        return freeze->seq[record] & 1 &&', '        return 0 &&'),
    ('freeze: seq read before attention is set', 'cache', 'shm/maintain/freeze.c',
     '''        do {
                for (; i < shm_arena_n_records_ever(arena); i++)''', '''        for (uint32_t k = 1; k < shm_arena_n_records_ever(arena); k++)
                freeze->seq[k] = shm_load_acq(&shm_arena_record(arena, k)->seq);
        do {
                for (; i < shm_arena_n_records_ever(arena); i++)''',
     '                        read_seq(arena, freeze, i);\n                        freeze->seen_usec[i]', '                        freeze->seen_usec[i]'),
    ('freeze: bit cleared before the caches are emptied', 'cache', 'shm/maintain/freeze.c',
     '''        freeze->walk_epochs = epochs;
''', '''        freeze->walk_epochs = epochs;
        freeze_clear_bit(control->arena, record);
'''),
    ('freeze: the head is read twice', 'freeze-repair/marked-dead', 'shm/maintain/freeze.c',
     'return is_pending(arena, freeze, record, owner) ?', 'return is_pending(arena, freeze, record, shm_record_owner(arena, record)) ?'),
    ('freeze: a second one forgets the epochs of the first', 'freeze-repair/abandoned', 'shm/maintain/freeze.c',
     'set_epochs(freeze, record, freeze->epochs[record] | epochs);', 'set_epochs(freeze, record, epochs);'),
    ('freeze: a record that is left meanwhile is emptied in part', 'left', 'shm/maintain/freeze.c',
     'if (freeze->epochs[record] != UINT64_MAX) {', 'if (0) {'),
    ('freeze: no membarrier, and threads that do not fence are not pending', 'denied', 'shm/maintain/freeze.c',
     'if (freeze->seen_usec[record] != 0 && !(shm_load_rlx(&r->flags) & SHM_RECORD_FENCES))', 'if (0)'),
    ('freeze: no membarrier, and no fence instead', 'denied', 'shm/maintain/freeze.c',
     '        shm_fence_sc(); /* ORDER: sc, pairs with cache_is_ours(); attention is', '        /* ORDER: sc, pairs with cache_is_ours(); attention is',
     '        shm_fence_sc(); /* ORDER: sc, pairs with shm_record_take(); attention is', '        /* ORDER: sc, pairs with shm_record_take(); attention is'),
    ('freeze: pending threads are not looked at again', 'maintain/empty-pop', 'shm/maintain/maintain.c',
     'bool ready = m->freeze_busy || (m->freeze.n_left > 0 && now_usec >= m->freeze_due_usec);', 'bool ready = m->freeze_busy;',
     'uint64_t at = m->freeze.n_left > 0 ? m->freeze_due_usec : SHM_MAINTAIN_IDLE;', 'uint64_t at = SHM_MAINTAIN_IDLE;'),
    ('flush of control: not ended where the record was left', 'left/again', 'shm/maintain/repair.c',
     '''index >= shm_arena_n_caches(arena))
                return;
''', '''index >= shm_arena_n_caches(arena))
                return;
        if (shm_record_owner(arena, record).state == SHM_RECORD_LEFT)
                return;
'''),
    ('flush of control: not ended', 'takeover', 'shm/maintain/repair.c',
     '                end_flush(control, reach, intent, &counts);', '                (void) end_flush;'),
    ('close: final though a thread is pending', 'maintain/close-refill', 'shm/maintain/close.c',
     '.final = close->n_pending == 0 && !shm_repair_wanted(control->arena)', '.final = true'),
    ('close: revoked though slots are in hand', 'maintain/revoke-pop', 'shm/maintain/close.c',
     'if (close->walk.final && close->revoke.kept == 0)', 'if (1)'),
    ('reserve: the label is stored when the era is open', 'reserve/get', 'shm/epoch/epoch-open.c',
     '        epoch_put_label(e, label);\n        shm_store_rlx(', '        shm_store_rlx(',
     '        *ret_number = shm_epoch_number(id,', '        epoch_put_label(e, label);\n        *ret_number = shm_epoch_number(id,'),
    ('reserve: a lease is open before it has an owner', 'reserve/alloc', 'shm/epoch/epoch-open.c',
     '        shm_store_rlx(&e->owner_client, owner);', '',
     '        *ret_number = shm_epoch_number(id,',
     '        shm_store_rlx(&e->owner_client, owner);\n        *ret_number = shm_epoch_number(id,'),
    ('advance: RETIRING is not set', 'advance', 'shm/epoch/epoch-open.c',
     '        (void) shm_epoch_change(arena, old, SHM_EPOCH_EV_RETIRE, 0);\n', ''),
    ('advance: not ended after a death', 'advance/again', 'shm/epoch/epoch-open.c',
     '''                else
                        (void) shm_epoch_close(arena, id, false);
''', ''),
    ('advance: not published', 'advance/current', 'shm/epoch/epoch-open.c',
     '''        (void) shm_epoch_close(arena, old, false);
        shm_attention_publish(arena);
''', '        (void) shm_epoch_close(arena, old, false);\n'),
    ('advance: not published after a death', 'advance/again', 'shm/epoch/epoch-open.c',
     '''                        (void) shm_epoch_close(arena, id, false);
        }
        shm_attention_publish(arena);
''', '''                        (void) shm_epoch_close(arena, id, false);
        }
'''),
    ('advance: closed before the next one is current', 'advance/current', 'shm/epoch/epoch-open.c',
     '''        (void) shm_epoch_change(arena, old, SHM_EPOCH_EV_RETIRE, 0);
''', '''        (void) shm_epoch_close(arena, old, false);
'''),
    ('advance: reopens an id that is being revoked', 'unit-epoch', 'shm/epoch/epoch-open.c',
     'if (shm_epoch_revoking(arena, id, &revoking) || epoch_load_owner(arena, id) != 0)', '(void) shm_epoch_revoking(arena, id, &revoking);\n        if (epoch_load_owner(arena, id) != 0)'),
    ('advance: reopens an id whose era wraps', 'unit-epoch', 'shm/epoch/epoch-open.c',
     '<= SLAB_ERA_BITS;', '<= SLAB_ERA_BITS + 1;'),
    ('lease: nobody has the epoch before it is closed', 'lease/again', 'shm/epoch/epoch-open.c',
     '''                (void) shm_epoch_revoke(arena, id, false);
                /* ORDER: rel; the word says that the era is to be revoked before the lease is cleared. */
                shm_store_rel(&arena->header->epochs[id].owner_client, 0);
''', '''                shm_store_rel(&arena->header->epochs[id].owner_client, 0);
                (void) shm_epoch_revoke(arena, id, false);
'''),
    ('lease: its epoch is closed, and not revoked', 'lease/alloc', 'shm/epoch/epoch-open.c',
     '(void) shm_epoch_revoke(arena, id, false);', '(void) shm_epoch_close(arena, id, true);'),
    ('takeover: older eras are forgotten', 'advance', 'shm/maintain/maintain.c',
     '(info.state == SHM_EPOCH_OPEN && info.era == 1)', 'info.state == SHM_EPOCH_OPEN'),
    ('revoke: older eras, too', 'unit-revoke', 'shm/epoch/epoch-close.c',
     'from = older ? shm_load_rlx', 'from = 1 ? shm_load_rlx'),
    ('unnote: an empty note is taken for 0', 'unit-object', 'shm/arena/note.h',
     'if (handle == 0) /*', 'if (0) /*'),
    ('freeze: a record is left before its last operation is over', 'cache', 'shm/cache/cache.c',
     '''        shm_actor_leave(actor);
        /* Either''', '''        if (!ours) {
                shm_record_set_left(actor->arena, actor->id);
                shm_actor_leave(actor);
                *actor = (ShmActor){};
                return;
        }
        shm_actor_leave(actor);
        /* Either'''),
    ('repair: a ROLLED_BACK record is rolled back again', 'repair', 'shm/maintain/repair.c',
     '''        shm_reach_init(reach, control);
        if (first) {
                repair->begun = true;''', '''        shm_reach_init(reach, control);
        if (first) {
                if (repair->record > 0) {
                        (void) shm_rollback_named(control, repair->record);
                        for (ShmCacheWalk w = {}; shm_cache_walk_next(&w, arena, repair->record);)
                                (void) shm_rollback_cache(arena, repair->record, &w);
                }
                repair->begun = true;'''),
    ('repair: ROLLED_BACK before it is rolled back', 'repair', 'shm/maintain/repair.c',
     '''                repair->begun = true;
                repair->to = (ShmCacheWalk){};
        } else if''', '''                repair->begun = true;
                repair->to = (ShmCacheWalk){};
                shm_record_set_rolled_back(arena, repair->record);
        } else if'''),
    ('rollback: the slot of TAKE stays live', 'repair', 'shm/maintain/rollback.c',
     '''        if (intent.kind == SHM_INTENT_TAKE)
                n = shm_rollback_object(arena, intent.id, intent.tag);
''', ''),
    ('rollback: what is on top stays live', 'repair', 'shm/maintain/rollback.c',
     '        return rollback_top(arena, walk);', '        return rollback_top ? 0 : 1;'),
    ('rollback: an odd top under FLUSH is undone', 'repair', 'shm/maintain/rollback.c',
     'if (shm_intent_flushed(shm_record_intent(arena, record), record, walk->index) != 0)', 'if (0)'),
    ('repair: a record with a slot in flight is freed', 'repair', 'shm/maintain/repair.c',
     'if (repair->record_in_flight == 0)', 'if (1)'),
    ('repair: slots in flight fall out of the cache', 'repair', 'shm/maintain/repair.c',
     'if (is_in_flight(reach, id))', 'if (0)'),
    ('repair: hints not repaired', 'repair', 'shm/maintain/repair.c',
     '        shm_hints_repair_intent(control->arena, intent);\n}\n\nstatic void free_record', '}\n\nstatic void free_record'),
    ('repair: BUSY slabs stay so', 'repair', 'shm/maintain/repair.c',
     '        if (intent.kind == SHM_INTENT_RUN)\n                counts->slabs += shm_pages_undo', '        if (0)\n                counts->slabs += shm_pages_undo'),
    ('repair: slabs stay ACTIVE', 'repair', 'shm/maintain/repair.c',
     'repair->counts.slabs += repair_release_slab(control, repair->record, held - 1);', ''),
    ('repair: the intent of FREE is no candidate', 'repair', 'shm/maintain/repair.c',
     'intent.kind == SHM_INTENT_TAKE || is_freed(arena, intent)', 'intent.kind == SHM_INTENT_TAKE'),
    ('rollback: pending objects stay', 'repair', 'shm/maintain/rollback.c',
     'return n + rollback_notes(control, shm_arena_record(arena, record));', 'return rollback_notes ? n : 0;'),
    ('reach: gen not compared', 'repair', 'shm/maintain/reach.c',
     'const uint64_t claimed = ~(SLAB_STATE_MASK | SLAB_SPARSE | SLAB_HOLDER_MASK);', 'const uint64_t claimed = SLAB_KEY_MASK;'),
    ('refs: intents not read', 'repair', 'shm/maintain/refs.c',
     '        gather_intent(refs, refs->intent);\n', '',
     '                gather_intent(refs, shm_record_intent(refs->arena, refs->record));\n', ''),
    ('refs: caches of the living not read', 'repair', 'shm/maintain/refs.c',
     '                n = gather_cache(refs);', '                (void) gather_cache;'),
    ('refs: intent not read first', 'repair', 'shm/maintain/refs.c',
     '        gather_intent(refs, refs->intent);\n', ''),
    ('reach: a slab in which claims keep coming is not pinned', 'unit-repair-race', 'shm/maintain/reach.c',
     'if (stands || reach->n_pinned == PINNED_MAX)', 'if (1)'),
    ('reach: pinned without an intent', 'repair', 'shm/maintain/reach.c',
     '''        shm_actor_intend(control, shm_intent_other(SHM_INTENT_SLAB, slab, 0));
        if (shm_slab_pin''', '        if (shm_slab_pin'),
    ('revoke: objects of another epoch are marked', 'revoke', 'shm/maintain/revoke.c',
     '''        if (!is_revoked(arena, revoke, w))
                return; /*''', '''        if (0)
                return; /*'''),
    ('revoke: the slab\'s word is read before its tags', 'revoke', 'shm/maintain/revoke.c',
     '''        shm_slab_view(arena, slab, &view);
        w = shm_slab_word(arena, slab);''', '''        w = shm_slab_word(arena, slab);
        shm_slab_view(arena, slab, &view);'''),
    ('revoke: tag by a plain store', 'revoke', 'shm/maintain/revoke.c',
     'if (shm_cas_acqrel(at, &tag, tag + 1))', 'if (shm_store_rel(at, tag + 1), true)'),
    ('revoke: slots in hand are collected', 'revoke-cache', 'shm/maintain/refs.c',
     '        gather_intent(refs, refs->intent);\n', '',
     '                gather_intent(refs, shm_record_intent(refs->arena, refs->record));\n', ''),
    ('cache: no fence where there is no membarrier', 'cache', 'shm/cache/cache.c',
     '                shm_fence_sc(); /', '                (void) 0; /'),
    ('birth: head by a plain store', 'record', 'shm/arena/record.c',
     'if (!record_change_head(arena, i, old, SHM_RECORD_EV_TAKE, client, tid))\n                        continue;\n',
     'shm_store_rel(&arena->heads[i].word, head_make(SHM_RECORD_USED, client, tid));\n'),
    ('birth: n_records_ever raised after the head', 'record', 'shm/arena/record.c',
     '''                raise_records_ever(arena, i + 1);
''', '', '                begin_ownership(arena, i);\n', '''                raise_records_ever(arena, i + 1);
                begin_ownership(arena, i);
'''),
    ('birth: n_records_ever by a plain store', 'record', 'shm/arena/record.c',
     'while (old < n && !shm_cas_acqrel(ever, &old, n))\n                ;', 'if (old < n)\n                shm_store_rel(ever, n);'),
    ('birth: seq stays odd', 'record', 'shm/arena/record.c',
     '        make_seq_even(r); /* its last', '        /* its last'),
    ('gone: whoever has the record now', 'record', 'shm/arena/record.c',
     'head_make(owner.state, owner.client, owner.tid),', 'load_head(arena, record),'),
    ('gone: head by a plain store', 'record', 'shm/arena/record.c',
     '''        return record_change_head(arena, record, head_make(owner.state, owner.client, owner.tid),
                                  SHM_RECORD_EV_DIE, owner.client, owner.tid);''', '''        if (shm_load_acq(&arena->heads[record].word) != head_make(owner.state, owner.client, owner.tid))
                return false;
        shm_store_rel(&arena->heads[record].word, head_make(SHM_RECORD_DEAD, owner.client, owner.tid));
        return true;'''),
    ('inherit: a record that is DEAD', 'record', 'shm/arena/record.c',
     '        { SHM_RECORD_USED, SHM_RECORD_EV_INHERIT, SHM_RECORD_USED },\n',
     '''        { SHM_RECORD_USED, SHM_RECORD_EV_INHERIT, SHM_RECORD_USED },
        { SHM_RECORD_DEAD, SHM_RECORD_EV_INHERIT, SHM_RECORD_USED },
'''),
    ('inherit: head by a plain store', 'record', 'shm/arena/record.c',
     '''        return head_decode(old).client == client &&
               record_change_head(arena, record, old, SHM_RECORD_EV_INHERIT, client, tid);''', '''        if (head_decode(old).client != client || head_decode(old).state != SHM_RECORD_USED)
                return false;
        shm_store_rel(&arena->heads[record].word, head_make(SHM_RECORD_USED, client, tid));
        return true;'''),
    ('take over: seq stays odd', 'record', 'shm/arena/record.c',
     '        make_seq_even(actor->record);\n', ''),
    ('end: a record is given back before its last operation is over', 'record', 'tests/model/case/record.h',
     '        use(&mine[0], OLD_TID);\n        shm_actor_deinit(&mine[0]);', '        ShmActor mine_ = mine[0];\n\n        shm_actor_deinit(&mine[0]);\n        use(&mine_, OLD_TID);'),
    ('room: more than a flush names is given back', 'room', 'shm/cache/cache-drain.c',
     'shm_intent_other(SHM_INTENT_FLUSH, record, index << 9 | k)', 'shm_intent_other(SHM_INTENT_FLUSH, record, index << 9 | (k - 1))'),
    ('room: a window that did not pay leaves room', 'unit-cache', 'shm/cache/capacity.c',
     'if (cache->free.bypass == 0)\n                        shm_store_rlx(&cache->room, cache->capacity);', 'shm_store_rlx(&cache->room, 2 * cache->capacity);'),
    ('want: own caches are kept', 'room', 'shm/cache/cache.c',
     '                shm_cache_drain_record(actor, actor->id, UINT64_MAX);\n                r = shm_uncached', '                r = shm_uncached'),
    ('want: own caches are emptied without FLUSH', 'room/want', 'shm/cache/cache-drain.c',
     '''        shm_actor_intend(actor, shm_intent_other(SHM_INTENT_FLUSH, record, index << 9 | k));
''', ''),
    ('pop: noted after the tag is odd', 'notes', 'shm/cache/cache.c',
     '''                r = shm_pending_note(actor, pending, handle);
                if (r)
                        return r;
        }
''', '''        }
''', '        shm_cache_set_count(cache, n - 1);\n        *ret_handle', '''        shm_cache_set_count(cache, n - 1);
        if (pending) {
                r = shm_pending_note(actor, pending, handle);
                if (r)
                        return r;
        }
        *ret_handle'''),
    ('pending: noted after TAKE is cleared', 'notes', 'shm/cache/uncached.c',
     '''        if (pending)
                r = shm_pending_note(actor, pending, handle);
''', '', '''        shm_actor_count(actor, SHM_COUNT_ALLOCS_UNCACHED, 1);
        *ret_handle''', '''        if (pending)
                r = shm_pending_note(actor, pending, handle);
        *ret_handle'''),
    ('pending: refused, and not given back', 'notes', 'shm/cache/uncached.c',
     '                (void) shm_slab_free_slots(actor, found.slab, found.mask);\n', '                (void) 0;\n'),
    ('pending: refused, and taken from the stack', 'notes', 'shm/cache/cache.c',
     '                if (r)\n                        return r;\n        }\n        /* ORDER: rel, pairs with shm_object_get(); noted',
     '                if (r) {\n                        shm_cache_set_count(cache, n - 1);\n                        return r;\n                }\n        }\n        /* ORDER: rel, pairs with shm_object_get(); noted'),
    ('pending: refused, and the slot of a hit is live', 'notes', 'shm/cache/cache.c',
     '        if (r == 0)\n                shm_cache_pop_hit(', '        shm_cache_pop_hit('),
    ('pending: the slot of a hit is not noted', 'notes', 'shm/cache/cache.c',
     'r = shm_pending_note(actor, pending, bits ^ actor->handle_bits);', 'r = 0;'),
    ('pending: a note that stands is overwritten', 'notes', 'shm/arena/note.h',
     'if (shm_load_rlx(&r->notes[i].handle) != 0)\n                        continue;', ''),
    ('pending: the note falls before the object is freed', 'notes', 'shm/cache/cache.c',
     '''                (void) shm_cache_free(actor, handle);
                (void) shm_actor_unnote(actor, handle);''', '''                (void) shm_actor_unnote(actor, handle);
                (void) shm_cache_free(actor, handle);'''),
    ('search: the slab emptied last is not the first', 'unit-search', 'shm/slab/search.c',
     'return search_recent(actor, want, ret) || search_set(', 'return search_set('),
    ('search: the words are not', 'search', 'shm/slab/search.c',
     ' || search_words(actor, want, ret))', ')'),
    ('search: words of slabs that are free are passed over', 'search', 'shm/slab/search.c',
     '(state == SLAB_FREE || state == SLAB_PARTIAL) &&', 'state == SLAB_PARTIAL &&'),
    ('search: words of slabs that are partial are passed over', 'search', 'shm/slab/search.c',
     '(state == SLAB_FREE || state == SLAB_PARTIAL) &&', 'state == SLAB_FREE &&'),
    ('map put: goes on past a stale leaf in a bucket', 'map/bucket-stale', 'shm/map/entry/map.c',
     'r = shm_trie_exchange(actor, trie, c, SHM_TRIE_GONE);', 'r = 0;'),
    ('leaf: in slot 0 each guess passes', 'unit-map-cell', 'shm/map/leaf/leaf.h',
     ' ||\n            arena->classes[shm_arena_class(arena, size)].size != room', ''),
    ('leaf: ends are not sealed', 'map-cell/touch-reuse', 'shm/map/leaf/leaf.h', 'UINT64_C(0xd6e8feb86659fd93)', '0'),
    ('leaf: cells are not sealed', 'map-cell/add-reuse', 'shm/map/leaf/leaf.h', 'UINT64_C(0xd6e8feb86659fd93)', '0'),
    ('cell: added to a counter that is another by now', 'map-cell/add-at-reuse', 'shm/map/entry/cell.c',
     'return trie_live(trie->arena, cell.leaf);', 'return true;'),
    ('cell: read again after a turn, and it is another by now', 'map-again/turn-reuse', 'shm/map/entry/cell.c',
     'shm_pause(TURN_TICKS);\n        return load_cell(trie, cell, ret_value);',
     'shm_pause(TURN_TICKS);\n        (void) load_cell(trie, cell, ret_value);\n        return true;',
     'if (!shm_actor_guard(actor, cell.leaf))', 'if (0)'),
    ('cell: put over another', 'map-cell/add-add', 'shm/map/entry/cell.c', 'put.mode = SHM_MAP_INSERT;', 'put.mode = SHM_MAP_PUT;'),
    ('cell: found again, and its key was deleted', 'map-again/delete', 'shm/map/entry/cell.c',
     ' &&\n               trie_link_holds(trie, link) &&', ' &&'),
    ('cell: found again, and another has its key', 'map-again/delete-add', 'shm/map/entry/cell.c',
     ' &&\n               trie_link_holds(trie, link) &&', ' &&'),
    ('cell: found again, and it was taken', 'map-again/take', 'shm/map/entry/cell.c',
     ' &&\n               trie_link_holds(trie, link) &&', ' &&'),
    ('cell: found again in a node that was removed', 'map-again/delete-node', 'shm/map/entry/cell.c',
     ' && is_found_live(trie->arena, found->node) &&\n               trie_link_holds(trie, link) &&', ' &&'),
    ('cell: found again in a slot that is used again', 'map-again/delete-reuse', 'shm/map/leaf/leaf.h',
     'UINT64_C(0xd6e8feb86659fd93)', '0'),
    ('cell: found again after its end', 'map-again/end', 'shm/map/entry/cell.c', '!is_found_over(found, trie) && ', ''),
    ('cell: found again, and its epoch was revoked', 'map-again/revoke', 'shm/map/entry/cell.c',
     'is_found_live(trie->arena, found->leaf) && ', '', 'return trie_live(trie->arena, cell.leaf);', 'return true;'),
    ('cell: found again, and there is no map any more', 'map-again/revoke-index', 'shm/map/entry/cell.c',
     'is_found_live(trie->arena, found->node) &&\n               trie_link_holds(trie, link)',
     'shm_load_acq(link.word) == link.raw'),
    ('cell: found again, and a page made by the look', 'unit-map-cell', 'shm/map/entry/cell.c',
     'return !shm_tags_away(arena, slot_id_slab(shm_handle_slot(handle))) && trie_live', 'return trie_live'),
    ('cell: found again, of another key', 'unit-map-cell', 'shm/map/entry/cell.c',
     ' && shm_racy_equal(found->key, key->bytes, key->size)', ''),
    ('cell: found again, of a key that begins as this one', 'unit-map-cell', 'shm/map/entry/cell.c',
     ' && found->key_size == key->size', ''),
    ('cell: found again, of another map', 'unit-map-cell', 'shm/map/entry/cell.c', 'found->root == trie->root && ', ''),
    ('cell: found again, of another kind', 'unit-map-cell', 'shm/map/entry/cell.c', 'found->flags == flags && ', ''),
    ('cell: a key is hashed though its counter was found again', 'unit-map-cell', 'shm/map/entry/cell.c',
     '                r = is_found_again(',
     """                if (key->hash == SHM_CELL_HASH_LATER)
                        key->hash = shm_hash(trie->arena, key->bytes, key->size);
                r = is_found_again("""),
    ('take: a counter is not closed', 'map-cell/add-take', 'shm/cache/uncached.h',
     'final->last = shm_xchg_acqrel(final->taken, final->taken_closed);', 'final->last = shm_load_acq(final->taken);'),
    ('take: closed by a value that it had', 'map-cell/add-turn-take', 'shm/map/leaf/leaf.h',
     'shm_hash(arena, &view->handle, sizeof(view->handle));', '5 ^ shm_leaf_seal(view->handle);'),
    ('take: closed before the tag is even', 'map-cell/get-take', 'shm/cache/uncached.c',
     '        /* ORDER: acqrel, pairs with shm_object_copy(); all accesses to the object are before the slot is freed. */',
     '        if (final) shm_final_close(final);', '                if (final)\n', '                if (0)\n'),
    ('take: closed when the slot is given back', 'map-cell/add-take', 'shm/cache/uncached.c',
     '                if (final)\n', '                if (0)\n',
     '                shm_actor_count(actor, SHM_COUNT_FREES_UNCACHED, 1);',
     '                shm_actor_count(actor, SHM_COUNT_FREES_UNCACHED, 1);\n                if (final) shm_final_close(final);'),
    ('leaf: the end is not closed before the slot is used again', 'map-end/get-touch-delete', 'shm/cache/uncached.h',
     '        shm_store_rel(final->word, final->closed);\n', ''),
    ('leaf: the end is not closed by a free that hits', 'map-end/get-touch-delete-hit', 'shm/cache/cache-hit.h',
     '        if (final)\n                shm_final_close(final);\n', ''),
    ('leaf: the end is not closed by a free into the cache', 'map-end/get-touch-delete-cached', 'shm/cache/cache.c',
     '                if (final)\n                        shm_final_close(final);\n', ''),
    ('leaf: the end is not closed by a free past the cache', 'map-end/get-touch-delete', 'shm/cache/uncached.c',
     '                if (final)\n                        shm_final_close(final);\n', ''),
    ('leaf: the end of a chain or a counter is not closed', 'map-end/limit-delete', 'shm/map/leaf/chain.c',
     'return shm_object_finish(actor, leaf, &final);', 'return shm_object_free(actor, leaf);'),
    ('leaf: the end of a leaf without chunks is not closed', 'map-end/get-touch-put', 'shm/map/trie/trie-change.c',
     'final = &plain;', '(void) plain, (void) shm_object_free(actor, old);'),
    ('leaf: the end of a leaf that is evicted is not closed', 'map-evict/get-touch-slot', 'shm/map/leaf/chain.c',
     'return shm_object_finish(actor, leaf, &final);', 'return shm_object_free(actor, leaf);'),
    ('cell: not closed where the counter is deleted', 'map-end/add-delete', 'shm/map/leaf/leaf.h',
     'final.taken = shm_map_view_cell(view);', ''),
    ('tags: the end of a tag is not closed by an invalidation', 'map-end/tag-invalidate', 'shm/map/entry/tag.c',
     'r = shm_object_finish(actor, view.handle, &final);', 'r = shm_object_free(actor, view.handle);'),
    ('tags: the end of a tag is not closed by an eviction', 'map-end/tag-drop', 'shm/map/state/unlink.h',
     '(void) shm_object_finish(actor, view->handle, &final);', '(void) shm_object_free(actor, view->handle);'),
    ('end: changed without a guard, and its epoch is revoked', 'map-revoke/get-touch', 'shm/map/state/lifetime.c',
     'if (!shm_actor_guard(actor, view->handle))', 'if (0)'),
    ('end: settled without a guard, and its epoch is revoked', 'map-revoke/settle', 'shm/map/state/lifetime.c',
     'if (!shm_actor_guard(actor, view->handle))', 'if (0)'),
    ('cell: changed without a guard, and its epoch is revoked', 'map-revoke/add', 'shm/map/entry/cell.c',
     'if (!shm_actor_guard(actor, cell.leaf))', 'if (0)'),
    ('cell: changed without a guard, and the thread that frees it dies', 'map-end/add-at-free-repair', 'shm/map/entry/cell.c',
     'if (!shm_actor_guard(actor, cell.leaf))', 'if (0)'),
    ('repair: guards are looked at before they are seen', 'map-end/add-at-repair-late', 'shm/maintain/repair.c',
     'shm_freeze_fence_all(control);\n        repair', 'repair'),
    ('repair: of what was freed, guards are looked at before they are seen', 'map-end/add-at-free-repair-late',
     'shm/maintain/repair.c', 'return is_freed(arena, shm_record_intent(arena, record)) ||', 'return'),
    ('repair: of what is noted, guards are looked at before they are seen', 'map-end/add-at-repair-late',
     'shm/maintain/repair.c', '||\n               next_ended(arena, shm_arena_record(arena, record), &i) != 0;', '|| i != 0;'),
    ('repair: a step waits for guards again and again', 'meson:unit-repair/test_steps_end_with_a_wait', 'shm/maintain/repair.c',
     '        *budget = 0;\n', ''),
    ('repair: guards are seen when a record is rolled back, and not later', 'map-end/add-at-mark-repair-late',
     'shm/maintain/repair.c', '        repair->fenced = false;\n', '        (void) repair;\n'),
    ('repair: not told of a revocation', 'meson:unit-maintain/test_repair_beside_revocation', 'shm/maintain/maintain.c',
     '                shm_repair_fence_again(&m->repair);\n', '                (void) m;\n'),
    ('repair: guards are not seen before a record is rolled back', 'map-end/add-at-free-collect-late',
     'shm/maintain/repair.c', 'if (names_ended(arena, repair->record)) {', 'if (0) {'),
    ('cell: changed by load and store', 'map-cell/add-add-there', 'shm/map/entry/cell.c',
     'done = shm_cas_acqrel(cell.word, &expected, next ^ seal);',
     'done = (shm_store_rel(cell.word, next ^ seal), expected != 0);'),
    ('cell: set by load and store', 'map-cell/add-set', 'shm/map/entry/cell.c',
     'done = shm_cas_acqrel(cell.word, &expected, next ^ seal);',
     'done = (shm_store_rel(cell.word, next ^ seal), expected != 0);'),
    ('cell: the sum is not looked at again', 'map-cell/add-add-range', 'shm/map/entry/cell.c',
     '        do {\n                if (!add_to_value(add, (int64_t) value, ret))\n                        return -EOVERFLOW;\n'
     '                if (change',
     '        if (!add_to_value(add, (int64_t) value, ret))\n                return -EOVERFLOW;\n        do {\n'
     '                *ret = value + (uint64_t) add->delta;\n                if (change'),
    ('cell: two make a bucket', 'map-limit/limit-limit', 'shm/map/entry/cell.c', 'put.mode = SHM_MAP_INSERT;', 'put.mode = SHM_MAP_PUT;'),
    ('cell: tokens are taken by load and store', 'map-limit/limit-limit-there', 'shm/map/entry/cell.c',
     'done = shm_cas_acqrel(cell.word, &expected, next ^ seal);',
     'done = (shm_store_rel(cell.word, next ^ seal), expected != 0);'),
    ('cell: buckets are not sealed', 'map-limit/limit-delete-reuse', 'shm/map/leaf/leaf.h', 'UINT64_C(0xd6e8feb86659fd93)', '0'),
    ('cell: tokens are taken from what is a value by now', 'map-limit/limit-put', 'shm/map/entry/cell.c',
     'if (view.head.flags != flags)', 'if (0)'),
    ('cell: tokens are taken from a counter', 'map-limit/limit-add', 'shm/map/entry/cell.c',
     'if (view.head.flags != flags)', 'if (!(view.head.flags & SHM_LEAF_CELL))'),
    ('cell: the end of a bucket is moved after its word', 'map-limit/limit-limit-there', 'shm/map/entry/cell.c',
     'keep_bucket(actor, next_ns) && change_cell(actor, cell, full_ns, next_ns)',
     'change_cell(actor, cell, full_ns, next_ns) && keep_bucket(actor, next_ns)'),
    ('cell: the end of a bucket is one that came after the look', 'map-limit/limit-pass', 'shm/map/entry/cell.c',
     '.bytes = found->key, .expires = found->expires };',
     """.bytes = found->key,
                .expires = shm_load_rlx(&((const ShmMapLeaf *) found->key - 1)->expires) ^ shm_leaf_seal(found->leaf) };"""),
    ('cell: the end of a bucket stays', 'map-limit/limit-pass', 'shm/map/entry/cell.c',
     'return shm_map_set_end(actor, &view, bucket_end_ms(full_ns, KEEP_MS));', 'return true;'),
    ('cell: tokens are taken though the bucket has ended', 'map-limit/limit-pass', 'shm/map/entry/cell.c',
     'return shm_map_set_end(actor, &view, bucket_end_ms(full_ns, KEEP_MS));',
     '(void) shm_map_set_end(actor, &view, bucket_end_ms(full_ns, KEEP_MS));\n        return true;'),
    ('map put: the end of an entry that is over is not final', 'map-cell/touch-insert', 'shm/map/entry/put.c',
     'if (put->mode != SHM_MAP_PUT && !shm_map_settle_end(actor, view))', 'if (0)'),
    ('map put: by version, the end of an entry that is over is not final', 'map-replace/replace-touch', 'shm/map/entry/put.c',
     'if (put->mode != SHM_MAP_PUT && !shm_map_settle_end(actor, view))', 'if (0)'),
    ('map put: an exact put takes an entry that is over for none', 'map-replace/exact-touch', 'shm/map/entry/put.c',
     ' || put->mode == SHM_MAP_EXACT', ''),
    ('map put: versions are not compared', 'map-replace/exact-put', 'shm/map/entry/put.c',
     'return version == put->expected ? 0 : -EAGAIN;', 'return 0;'),
    ('expiry: what took the place of an entry that is over is deleted', 'map-replace/exact-pass', 'shm/map/state/unlink.c',
     'while (r == 0 && ret->value != view->handle)', 'while (0)'),
    ('map delete: the end of an entry that is over is not final', 'map-cell/touch-delete', 'shm/map/entry/map.c',
     'if (view.is_over && !shm_map_settle_end(actor, &view))', 'if (0)'),
    ('touch: the new end is not noted', 'unit-map-expiry', 'shm/map/entry/expiry.c',
     'shm_expiry_note(trie->arena, view->handle, end);', ''),
    ('touch: the value may be that of another entry', 'map-cell/get-touch-reuse', 'shm/map/entry/expiry.c',
     'return shm_map_view_live(trie->arena, view) ? r : SHM_TRIE_E_CHANGED;', 'return r;'),
    ('touch: the tags of an entry are not used with it', 'unit-map-tag', 'shm/map/evict/evict.h',
     'if (__builtin_expect(shm_map_view_has_tags(view), 0))', 'if (0)'),
    ('expiry: an end is noted, however late', 'unit-map-expiry', 'shm/map/entry/expiry.c',
     'kept - look->now_ms <= KEPT_MS_MAX ? kept : 0', 'kept'),
    ('cover: any object is one', 'unit-map-cover', 'shm/near/cover.c', '&& ret->magic == SHM_COVER_MAGIC', ''),
    ('cover: prefixes have any size', 'unit-map-cover', 'shm/near/cover.c', 'size > sizeof(prefixes) || ', ''),
    ('cover: the last prefix has no end', 'unit-map-cover', 'shm/near/cover.c', 'prefixes[size - 1] = 0;', ''),
    ('expiry: a bucket that takes long to fill is taken for damage', 'unit-map-expiry', 'shm/map/entry/expiry.c',
     '(UINT64_C(1) << 43) /*', '(2 * (uint64_t) UINT32_MAX) /*'),
    ('expiry: after a change of options, only entries that are over are looked at', 'unit-map-expiry', 'shm/map/entry/expiry.c',
     '(first > look->now_ms && !shm_load_rlx(&expiry->looking_again))', 'first > look->now_ms'),
    ('expiry: a change of options makes no pass due', 'unit-map-expiry', 'shm/map/entry/expiry.c',
     'shm_hint_load(&expiry->look_again) != 0 ||', ''),
    ('expiry: a map that is full keeps its stale values', 'unit-map-expiry', 'shm/map/entry/expiry.c',
     'return shm_map_set_has(&squeezing, trie->map - 1) ?', 'return 0 ?'),
    ('expiry: other maps lose their stale values, too', 'unit-map-expiry', 'shm/map/entry/expiry.c',
     'return shm_map_set_has(&squeezing, trie->map - 1) ?', 'return !shm_map_set_is_empty(&squeezing) ?'),
    ('touch: a bucket gets a new end', 'unit-map-expiry', 'shm/map/entry/expiry.c', 'view->head.flags & SHM_LEAF_BUCKET', '0'),
    ('claim: the claim of a process that opened the pool anew stands', 'unit-map-claim', 'shm/arena/client.c',
     ' ^ shm_load_rlx(&arena->clients[client].attached_usec) * ATTACHED_MIX', ''),
    ('claim: a value is no stale one where values of its size are put no more', 'unit-map-claim', 'shm/map/entry/put.c',
     '(!put->claim && put->value_size > value_max_option(&ret->evict.options))', 'put->value_size > value_max_option(&ret->evict.options)'),
    ('claim: its stale value lasts as long as it was put for', 'unit-map-claim', 'shm/map/state/lifetime.c',
     'return until < view->expires ? until : view->expires;', 'return view->expires;'),
    ('claim: claims fill a map without bound', 'unit-map-claim', 'shm/map/entry/put.c', 'return put->claim && limit != 0 &&', 'return 0 &&'),
    ('claim: a key is longer than a claim with a stale value can have', 'unit-map-claim', 'shm/map/entry/claim.c',
     'if (key->size > shm_map_claim_key_max(trie->arena))', 'if (0)'),
    ('limit: no bucket lacks more than the burst', 'unit-map-expiry', 'shm/map/entry/cell.c',
     '(lacks_ns < LACKS_NS_MAX ? lacks_ns : LACKS_NS_MAX)', '(lacks_ns < rate->burst_ns ? lacks_ns : rate->burst_ns)'),
    ('limit: a damaged word is a full bucket', 'unit-map-expiry', 'shm/map/entry/cell.c',
     '(lacks_ns < LACKS_NS_MAX ? lacks_ns : LACKS_NS_MAX)', 'lacks_ns'),
    ('take: the end of an entry that is over is not final', 'map-cell/touch-take', 'shm/map/entry/take.c',
     'return shm_map_settle_end(actor, view) ? -ENOENT : SHM_TRIE_E_CHANGED;', 'return -ENOENT;'),
    ('touch: the end of an entry that is over is not final', 'map-cell/touch-touch', 'shm/map/entry/expiry.c',
     'return shm_map_settle_end(actor, view) ? -ENOENT : SHM_TRIE_E_CHANGED;', 'return -ENOENT;'),
    ('add at: the end of a counter that is over is not final', 'map-cell/touch-add-at', 'shm/map/entry/cell.c',
     'return shm_map_settle_end(actor, &view) ? -ESTALE : SHM_TRIE_E_CHANGED;', 'return -ESTALE;'),
    ('expiry: the end of an entry that is over is not final', 'map-cell/touch-pass', 'shm/map/entry/expiry.c',
     'if (view->expires != SHM_MAP_ENDED && !shm_map_set_end(control, view, SHM_MAP_ENDED))', 'if (0)'),
    ('expiry: a claim goes for the entry that was there', 'map-claim/claim-pass', 'shm/map/state/unlink.c',
     'while (r == 0 && ret->value != view->handle)', 'while (0)'),
    ('expiry: a value goes for the claim that it fulfils', 'map-claim/fulfil-pass', 'shm/map/state/unlink.c',
     'while (r == 0 && ret->value != view->handle)', 'while (0)'),
    ('claim: it takes the place of an entry that went', 'map-claim/claim-pass', 'shm/map/entry/claim.c',
     '} while (r == -EAGAIN || r == SHM_TRIE_E_CHANGED);', '} while (r == SHM_TRIE_E_CHANGED);'),
    ('claim: put over whatever is there by now', 'map-claim/claim-put', 'shm/map/entry/claim.c',
     '.mode = SHM_MAP_EXACT,', '.mode = SHM_MAP_PUT,'),
    ('claim: two of them', 'map-claim/claim-claim', 'shm/map/entry/claim.c', '.mode = SHM_MAP_EXACT,', '.mode = SHM_MAP_PUT,'),
    ('claim: two take over that of a dead process', 'map-claim/claim-claim-dead', 'shm/map/entry/claim.c',
     '.mode = SHM_MAP_EXACT,', '.mode = SHM_MAP_PUT,'),
    ('claim: that of a dead process stands', 'map-claim/claim-claim-dead', 'shm/map/state/lifetime.c',
     'shm_client_identity(trie->arena, claim->client) == claim->process;',
     'shm_client_identity(trie->arena, claim->client) != 0;'),
    ('claim: extended after it was deleted', 'map-claim/extend-delete', 'shm/map/entry/claim.c',
     'if (claim->extends && (r != 0 || ', 'if (claim->extends && r == 0 && ('),
    ('claim: extended after another took it over', 'map-claim/extend-claim', 'shm/map/entry/claim.c',
     ' || view.handle != claim->gone || ', ' || '),
    ('claim: extended over whatever is there by now', 'map-claim/extend-fulfil', 'shm/map/entry/claim.c',
     '.mode = SHM_MAP_EXACT,', '.mode = SHM_MAP_PUT,'),
    ('claim: fulfilled after it was deleted', 'map-claim/fulfil-delete', 'shm/map/entry/put.c',
     '''        if (found != 0)
                return admit_put(put, 0);''', '''        if (found != 0)
                return put->mode == SHM_MAP_REPLACE ? 0 : admit_put(put, 0);'''),
    ('claim: fulfilled after another took it over', 'map-claim/fulfil-claim', 'shm/map/entry/put.c',
     '        if (shm_map_view_is_claim(view))\n', '''        if (shm_map_view_is_claim(view) && put->mode == SHM_MAP_REPLACE)
                return 0;
        if (shm_map_view_is_claim(view))
'''),
    ('claim: the end of the stale entry stays', 'map-claim/touch-claim', 'shm/map/entry/claim.c',
     'shm_map_view_live(trie->arena, view) && shm_map_settle_end(actor, view)',
     'shm_map_view_live(trie->arena, view)'),
    ('claim: the stale entry is ended before the claim is linked', 'map-claim/touch-claim', 'shm/map/state/lifetime.c',
     'view->expires | SHM_LEAF_SETTLED', 'SHM_MAP_ENDED'),
    ('claim: each look at a stale entry makes its end earlier', 'meson:api-map-claim/test_stale_value_stays_as_long',
     'shm/map/state/lifetime.c', 'view->is_settled || shm_map_set_end(actor, view, view->expires | SHM_LEAF_SETTLED)',
     'shm_map_set_end(actor, view, view->expires - 1)'),
    ('claim: one that is given up goes with its stale value', 'map-claim/give-up-claim', 'shm/map/entry/claim.c',
     'r == 0 || r == -EMSGSIZE ? r : shm_map_delete(', 'r == -EMSGSIZE ? r : shm_map_delete('),
    ('claim: one that is given up comes back after a delete', 'map-claim/give-up-delete', 'shm/map/entry/claim.c',
     'put.mode = SHM_MAP_EXACT;', 'put.mode = SHM_MAP_PUT;'),
    ('claim: given up and fulfilled', 'map-claim/give-up-fulfil', 'shm/map/entry/claim.c',
     'put.mode = SHM_MAP_EXACT;', 'put.mode = SHM_MAP_PUT;'),
    ('wait: looks at the key before it says so', 'map-claim/wait-fulfil', 'tests/model/case/map-claim.h',
     '''        value = shm_wait_begin(word);
        if (shm_map_find_claim(&map_tries[0], &key, claim_before, &c) == 1)
                asleep = value;''', '''        if (shm_map_find_claim(&map_tries[0], &key, claim_before, &c) == 1) {
                value = shm_wait_begin(word);
                asleep = value;
        }'''),
    ('wait: nothing says that somebody sleeps', 'map-claim/wait-fulfil', 'shm/map/state/wait.c',
     'value = shm_or_sc(word, SLEEPERS) | SLEEPERS;', 'value = shm_load_acq(word) | SLEEPERS;'),
    ('wait: woken before the claim is taken away', 'map-claim/wait-fulfil', 'shm/map/entry/put.c',
     '''        if (old && shm_map_view_is_claim(old))
                shm_wait_wake(trie, head->hash);
''', '', '''        was = found == SHM_MAP_E_TAKEN ? 0 : c.value;
''', '''        was = found == SHM_MAP_E_TAKEN ? 0 : c.value;
        shm_wait_wake(trie, key->hash);
'''),
    ('wait: a delete wakes nobody', 'map-claim/wait-delete', 'shm/map/state/tally.h',
     'if (__builtin_expect(view->head.flags & SHM_LEAF_CLAIM, 0))', 'if (0)'),
    ('wait: another claim wakes nobody', 'map-claim/wait-claim', 'shm/map/entry/put.c', 'if (old && shm_map_view_is_claim(old))', 'if (0)'),
    ('wait: the word of one hash is looked at before that of all', 'map-claim/poll-fulfil', 'tests/model/case/map-claim.h',
     '''        uint32_t kept = *word, value;
        ShmClaim c;

        value = shm_wait_begin(shm_wait_polled(&world_arena));
        if (shm_wait_begin(word) == kept ||''', '''        uint32_t kept = *word, value, now = shm_wait_begin(word);
        ShmClaim c;

        value = shm_wait_begin(shm_wait_polled(&world_arena));
        if (now == kept ||'''),
    ('wait: threads that wait for many are not woken', 'map-claim/poll-delete', 'shm/map/state/wait.c',
     '''        shm_wait_poke(word);
        wake_polled(trie->arena);
''', '''        shm_wait_poke(word);
'''),
    ('cover: looked at behind the copy', 'map-cover/read-caught-up', 'tests/model/case/map-cover.h',
     '''        if (shm_cover_load(&world_arena, handle, &cover) != 0 || !shm_cover_holds(&cover, &now))
                return 0;
''', '', '''        return value[0];
''', '''        if (shm_cover_load(&world_arena, handle, &cover) != 0 || !shm_cover_holds(&cover, &now))
                return 0;
        return value[0];
''', 'view.head.epoch != cover.epoch', 'view.head.epoch >> 8 == 0'),
    ('cover: a fill goes to the epoch of today', 'map-cover/fill-begin-anew', 'shm/map/entry/claim.c',
     '.epoch = view.head.epoch,', '.epoch = SHM_EPOCH_CURRENT,'),
    ('cover: a fill takes the place of whatever is there', 'map-cover/fill-change', 'shm/map/entry/claim.c',
     '''                .mode = SHM_MAP_REPLACE,
                .expected = version,
''', '''                .mode = SHM_MAP_PUT,
'''),
    ('cover: times are not sealed', 'map-cover/cover-late', 'shm/map/leaf/leaf.h', 'UINT64_C(0xd6e8feb86659fd93)', '0'),
    ('cover: moved by a plain store', 'map-cover/cover-late', 'shm/near/cover.c',
     'if (!shm_cas_acqrel(word, &expected, until ^ seal))', 'if (shm_store_rel(word, until ^ seal), expected == 0)'),
    ('cover: moved without a guard, and its epoch is revoked', 'map-cover/cover-revoke', 'shm/near/cover.c',
     'if (!shm_actor_guard(actor, handle))', 'if (0)'),
    ('cover: one clock is enough', 'unit-map-cover', 'shm/near/cover.h', 'now->monotonic_ms < cover->until.monotonic_ms &&', ''),
    ('cover: the other clock is enough', 'unit-map-cover', 'shm/near/cover.h', '&& now->real_ms < cover->until.real_ms', ''),
    ('cover: a claim that is over is fulfilled', 'unit-map-cover', 'shm/map/entry/claim.c',
     '''        if (r <= 0)
                return r ?: -EAGAIN;
        end = ''', '''        if (r < 0)
                return r;
        end = '''),
    ('cover: a copy outlives the value', 'unit-map-cover', 'shm/map/entry/claim.c', 'claim.ends - limit_ms);', 'shm_map_now_ms(trie));'),
    ('clear: claims stay', 'map-claim/clear-fulfil', 'shm/map/entry/map-scan.c',
     '        if (shm_map_is_over(trie, ret))\n', '''        if (shm_map_view_is_claim(ret))
                return KEEP;
        if (shm_map_is_over(trie, ret))
'''),
    ('clear: stale values stay', 'map-claim/clear-claim-stale', 'shm/map/entry/map-scan.c',
     'return shm_map_set_end(actor, ret, SHM_MAP_ENDED) ? END : LOOK_AGAIN;', 'return KEEP;'),
    ('clear: an entry goes as one that is over, and was touched', 'map-claim/clear-touch', 'shm/map/entry/map-scan.c',
     'return shm_map_set_end(actor, ret, SHM_MAP_ENDED) ? END : LOOK_AGAIN;', 'return END;'),
    ('clear: what was put just now is passed over', 'map-claim/clear-fulfil', 'shm/map/entry/map-scan.c',
     '''                /* The word, or the end of the leaf, has changed since the decision: look at it again. */
                *scan = before;
''', ''),
    ('clear: of two that clear, both count an entry', 'map-claim/clear-clear', 'shm/map/entry/map-scan.c',
     '''        if (r)
                return r;
        tally_fate(''', '''        if (r < 0)
                return r;
        tally_fate(''', 'if (r == SHM_TRIE_E_CHANGED) {', 'if (fate != DELETE && r == SHM_TRIE_E_CHANGED) {'),
    ('clear: entries of one epoch alone go', 'map-claim/clear-put', 'shm/map/entry/map-scan.c',
     'if (epoch == SHM_MAP_EPOCH_ALL)\n                return true;', 'epoch = epoch == SHM_MAP_EPOCH_ALL ? 0 : epoch;'),
    ('clear: a value that a dead put linked is freed by repair', 'map-claim/clear-repair', 'shm/maintain/rollback.c',
     '''!shm_object_live(arena, handle) ||
                    (root != 0 && shm_trie_contains(arena, root, hash, handle)))''', '!shm_object_live(arena, handle))'),
    ('clear: what a dead clear unlinked stays', 'map-claim/put-repair-clear', 'shm/maintain/rollback.c',
     '                n += shm_rollback_object(arena, shm_handle_slot(handle), shm_handle_tag(arena->key, handle));\n', ''),
    ('options: changed in place', 'map-options', 'shm/map/state/options.h', 'i = next & 1;', 'i = ~next & 1;'),
    ('options: the version rises first', 'map-options', 'shm/map/state/options.h',
     '        shm_store_rel(&root->options_version, next);\n', '',
     'ShmMapOptionSets *sets = &root->options;\n\n        /* ORDER: rel,',
     'ShmMapOptionSets *sets = &root->options;\n\n        shm_store_rel(&root->options_version, next);\n        /* ORDER: rel,'),
    ('options: two changes under one load', 'map-options', 'shm/map/state/options.h',
     'return shm_load_acq(&root->options_version) == version;', 'return true;'),
    ('limit: an entry cannot be replaced by a smaller one above a lowered limit', 'unit-map-evict', 'shm/map/evict/evict.c',
     'return evict->cost > evict->old_cost ? -ENOSPC : 0;', 'return -ENOSPC;'),
    ('tags: a tag is unlinked before it is freed', 'map-tag/drop-invalidate', 'shm/map/state/unlink.c',
     '        shm_map_condemn_tag(actor, view);\n', ''),
    ('tags: the free of a tag is not what invalidates it', 'map-tag/invalidate-invalidate', 'shm/map/entry/tag.c',
     'r = shm_object_finish(actor, view.handle, &final);', 'r = 0;'),
    ('tags: a pass is asked for before the tag is freed', 'map-tag/invalidate-pass', 'shm/map/entry/tag.c',
     '''                shm_expiry_invalidated(trie->arena);
                r = 0;''', '''                r = 0;''',
     '''                r = shm_object_finish''', '''                shm_expiry_invalidated(trie->arena);
                r = shm_object_finish'''),
    ('sets of maps: a put does not look whether its slab was taken out', 'set/map-make-forget', 'shm/map/evict/evict.h',
     '''shm_set_add_for_map(trie->arena, trie->map, slab);''', '''(void) slab;'''),
    ('tags: a get does not look at them', 'map-tag/put-invalidate-tagged', 'shm/map/state/lifetime.h',
     'if (!shm_object_live(arena, view->tags[i]))', 'if (0)'),
    ('remove: words are not closed', 'map-remove/insert-beside', 'shm/map/trie/trie-remove.c',
     'return shm_cas_acqrel(word, &raw, SHM_TRIE_CLOSED);', 'return true;'),
    ('remove: a leaf that is cut off is not noted', 'map-remove/put', 'shm/map/trie/trie-remove.c',
     'shm_actor_note(control, leaf, trie->root, hash) != 0)', '0)'),
    ('remove: the root stays open', 'map-remove/insert', 'shm/map/trie/trie-remove.c',
     'trie_load(trie, &c) != 0 || shm_trie_is_frozen(c.value))', '1)'),
    ('remove: repair does not pass the frozen root', 'map-remove/insert-beside', 'shm/map/trie/trie-walk.c',
     'if (!trie_is_removable(trie, c->depth) && stop == 0)', 'if (!trie_is_removable(trie, c->depth))'),
    ('root: the proposals of others are not looked at', 'root/make-make', 'shm/arena/root.c',
     'while (root.low == (proposal->hash | PROPOSED) && root.high != 0 &&', 'while (0 &&'),
    ('root: others for the name are not looked at', 'root/make-make', 'shm/arena/root.c',
     'if (root.low == proposal->hash && root.high != 0) {', 'if (0) {'),
    ('root: repair leaves a proposal', 'root/make-make', 'shm/arena/root.c',
     'if (root.high == handle && !(root.low & PROPOSED))', 'if (root.high == handle)'),
    ('evict: what took the place of the victim is deleted', 'map-evict/evict-put', 'shm/map/state/unlink.c',
     'while (r == 0 && ret->value != view->handle)', 'while (0)'),
    ('evict: the victim is deleted twice', 'map-evict/evict-delete', 'shm/map/state/unlink.c',
     'while (r == 0 && ret->value != view->handle)', 'while (0)',
     'r = shm_trie_exchange(actor, trie, c,', 'r = !shm_trie_is_leaf(c->value) ? 0 : shm_trie_exchange(actor, trie, c,'),
    ('evict: of a victim in two pieces the head alone is freed', 'map-evict/evict-put-in-two', 'shm/map/trie/trie-change.c',
     '(void) shm_chain_free(actor, old);', '(void) shm_object_free(actor, old);'),
    ('evict: a get does not look whether its value went meanwhile', 'map-evict/evict-get-in-two', 'shm/map/entry/map.c',
     '''if (shm_map_view_live(trie->arena, view)) {
                shm_evict''', '''if (1) {
                shm_evict'''),
    ('evict: what replaced a victim in two pieces is deleted', 'map-evict/evict-put-in-two', 'shm/map/state/unlink.c',
     'while (r == 0 && ret->value != view->handle)', 'while (0)'),
    ('evict: new entries are not young', 'map-evict/evict-evict', 'shm/map/evict/evict.c',
     'bits_set(&line->young[parity], slot_id_mask(id));', ''),
    ('evict: an entry that is replaced goes for what replaces it', 'unit-map-evict', 'shm/map/evict/evict-pass.c',
     'view->handle != old &&', ''),
    ('evict: in a pool that was full, entries go though slabs have free slots', 'unit-map-evict', 'shm/map/evict/evict.c',
     'has_slot(actor, s.key) ||', '(has_slot(actor, s.key), 0) ||'),
    ('evict: slabs with few entries are kept', 'unit-map-evict', 'shm/map/evict/evict-pass.c',
     '__builtin_expect(is_to_be_emptied(trie, h.slab, slots), 0)', '(is_to_be_emptied(trie, h.slab, slots), 0)'),
    ('evict: slabs with few entries are emptied though no other has room', 'unit-map-evict', 'shm/map/evict/evict-pass.c',
     'has_other_slabs(trie->arena, slab, w) &&', '(has_other_slabs(trie->arena, slab, w), 1) &&'),
    ('evict: large entries go for a slab that they leave empty', 'unit-map-evict', 'shm/map/evict/evict-pass.c',
     'are_worth_less(trie, slab, slots);', '(are_worth_less(trie, slab, slots), 1);'),
    ('evict: a claim goes', 'unit-map-evict', 'shm/map/evict/evict-pass.c',
     '!is_standing_claim(trie, view) &&', '(is_standing_claim(trie, view) || true) &&'),
    ('evict: a claim that was given up stays', 'unit-map-evict', 'shm/map/evict/evict-pass.c',
     ' &&\n               shm_map_claim_stands(trie, &claim);', ';'),
    ('evict: a hand at the end goes on before the others are there', 'unit-map-evict', 'shm/map/evict/evict-pass.c',
     'while (cost == 0 && n_ends > 0 && looks > 0) {\n                uint32_t class = shm_hand_next_class(trie, &w);\n',
     'uint32_t class = shm_hand_next_class(trie, &w);\n        while (cost == 0 && n_ends > 0 && looks > 0) {\n'),
    ('evict: a hand that another thread moved is moved on', 'unit-map-evict-steps', 'shm/map/evict/evict-pass.c',
     'uint32_t class = shm_hand_next_class(trie, &w);\n\n                cost',
     'uint32_t class = shm_hand_next_class(trie, &w);\n\n                w = hand_load(trie, class), cost'),
    ('evict: the same, for whole slabs', 'unit-map-evict-steps', 'shm/map/evict/evict-pass.c',
     'uint32_t class = shm_hand_next_class(trie, &w), slab;\n',
     'uint32_t class = shm_hand_next_class(trie, &w), slab;\n                w = hand_load(trie, class);\n'),
    ('evict: a hand that is far behind goes alone', 'unit-map-evict', 'shm/map/evict/evict-hand.c',
     'if (lead > LEAD_MAX)', 'if (0)'),
    ('evict: the entry that took the slot of the victim goes', 'unit-map-evict-steps', 'shm/map/evict/evict-pass.c',
     '|| is_new(trie, class, id)', '|| (is_new(trie, class, id), 0)'),
    ('evict: the same, with deaths: a new entry goes', 'map-evict/evict-late', 'shm/map/evict/evict-pass.c',
     '|| is_new(trie, class, id)', '|| (is_new(trie, class, id), 0)'),
    ('evict: the hands of other classes stand still', 'map-evict/evict-two-hands', 'shm/map/evict/evict-hand.c',
     'if (is_behind(w, *ret_last)) {', 'if (0) {'),
    ('evict: young bits are cleared before a look at them', 'unit-map-evict-steps', 'shm/map/evict/evict-pass.c',
     '                if (step.victim != 0)\n', '''                step_end(trie, class, &step);
                if (step.victim != 0)
'''),
    ('evict: all sweeps are full ones', 'unit-map-evict', 'shm/map/evict/evict-hand.c',
     '.young = evicted > 0 && put * YOUNG_SHARE > entries', '.young = false'),
    ('evict: entries that came where nothing went are the next to go', 'map-evict/evict-evict', 'shm/map/evict/evict-hand.c',
     'evicted > 0 && ', ''),
    ('evict: a slab with an entry is not in the set of the map', 'unit-map-evict', 'shm/map/entry/put.c',
     '        shm_evict_mark_slab(trie, leaf->handle);\n', ''),
    ('evict: the same, as a hand takes it out', 'map-evict/evict-forget', 'shm/map/entry/put.c',
     '        shm_evict_mark_slab(trie, leaf->handle);\n', ''),
    ('evict: a hand that took a slab out does not look again', 'map-evict/evict-forget', 'shm/map/evict/evict-pass.c',
     '        if (has_leaves(trie, slab))\n                shm_set_add_for_map', '        if (0)\n                shm_set_add_for_map'),
    ('evict: slabs without entries of the map stay in its set', 'meson:unit-map-evict-steps/test_evict_beside_large',
     'shm/map/evict/evict-pass.c', 'if (step->whole)', 'if (0)'),
    ('evict: slabs that were emptied stay in the set of a map', 'meson:unit-map-evict-steps/test_evict_beside_emptied',
     'shm/map/evict/evict-pass.c', 'return slots == 0 ||', 'return'),
    ('evict: a put that added a slab does not look again', 'map-evict/evict-forget-again', 'shm/slab/set.c',
     'if (shm_set_has(arena, set, slab))\n                        return;', 'return;'),
    ('evict: a hand clears the bit of the line, then takes the slab out', 'map-evict/evict-forget-again', 'shm/slab/set.c',
     '        uint64_t old = shm_and_sc(word_at(arena, set, arena->shape.n_levels - 1, slab / 64), ~mask);\n\n',
     '        uint64_t first = shm_and_sc(&arena->lines[slab].maps, ~shm_set_line_bit(map));\n'
     '        uint64_t old = shm_and_sc(word_at(arena, set, arena->shape.n_levels - 1, slab / 64), ~mask);\n\n'
     '        (void) first;\n        shm_fence_after_rmw();\n        clear_above(arena, set, slab / 64, old, mask);\n        return;\n'),
    ('evict: maps share sets of slabs', 'unit-map-evict', 'shm/arena/geometry.h', '#define SHM_SET_MAPS 256U', '#define SHM_SET_MAPS 32U'),
    ('evict: a put trusts a bit that maps share', 'unit-map-evict', 'shm/slab/set.h', '(map <= SHM_SET_OWN_BITS ||', '(map != 0 ||'),
    ('evict: the same, as a hand takes the slab out', 'map-evict/evict-forget-late-map', 'shm/slab/set.h',
     '(map <= SHM_SET_OWN_BITS ||', '(map != 0 ||'),
    ('evict: after a death a slab is not put into the set again', 'unit-map-evict', 'shm/map/entry/map-scan.c',
     '        if (trie->map != 0)\n                shm_set_add', '        if (false)\n                shm_set_add'),
    ('tally: changes of a map that lost its root are counted', 'meson:api-map-evict/test_map_evict_unset_in_use',
     'shm/map/state/tally.h', '== trie->root ? trie->map : 0;', '!= 0 ? trie->map : trie->map;'),
    ('tally: a walk beside writers makes a right count wrong', 'unit-map', 'shm/map/state/tally.c',
     'if (is_wrong)\n', 'if (is_wrong || 1)\n'),
    ('sweep: a walk goes on where that of the map before ended', 'unit-map', 'shm/map/entry/map-sweep.c',
     'shm_map_sweep_begin_map(sweep);', 'sweep->opened = false;'),
    ('tally: states of maps that never were get pages', 'meson:unit-daemon-map-info/test_count_without_pages',
     'shm/map/state/tally.c', 'for (uint32_t i = 0; shm_root_was_used(arena, i) &&', 'for (uint32_t i = 0; i < SHM_ROOTS_MAX &&'),
    ('wait: names that were never used get pages', 'meson:unit-daemon-map-info/test_wake_without_pages',
     'shm/map/state/wait.c', 'for (uint32_t i = 0; shm_root_was_used(arena, i); i++) {', 'for (uint32_t i = 0; i < SHM_ROOTS_MAX; i++) {'),
    ('tally: a map that is made anew is not counted', 'unit-map', 'shm/map/state/tally.c',
     'if (census->changes_before != 0)', 'if (0)'),
    ('tally: a walk beside a change that is not counted is exact', 'unit-map', 'shm/map/state/tally.c',
     'bool moved = is_in_change(control->arena, i);', 'bool moved = false;'),
    ('tally: bytes that were counted in the midst of a walk are exact', 'meson:model-map-sweep/count-insert', 'shm/map/state/tally.c',
     'moved || c.n[SHM_MAP_BYTES] != census->bytes_before', 'moved'),
    ('tally: a count beside changes is not made again', 'meson:model-map-sweep/count-insert', 'shm/map/state/tally.c',
     'else if (is_quiet(&c, roughly, now))', 'else if (0)'),
    ('tally: a map is quiet from the first look on', 'unit-map', 'shm/map/state/tally.c',
     '|| roughly >> 32 != now >> 32)', ')'),
    ('tally: a map is counted again while a thread is in a change', 'unit-map', 'shm/map/state/tally.c',
     '|| is_in_change(arena, i))\n                return;', ')\n                return;'),
    ('tally: a large map is counted again and again', 'unit-map', 'shm/map/state/tally.c',
     'QUIET_MS + at_least_0(count_entries(c)) / QUIET_ENTRIES_MS', 'QUIET_MS'),
    ('tally: a map that is no more is counted again and again', 'unit-map', 'shm/map/state/tally.c',
     'shm_store_rlx(&arena->header->maps[i].roughly, 0);', ''),
    ('evict: the limit goes by what threads told', 'meson:api-map-evict/test_map_evict_unset_deleted',
     'shm/map/evict/evict.c', 'excess > usual ? excess_of(evict, bytes_exactly(trie)) : excess;',
     'excess > usual + bytes_exactly(trie) ? excess : excess;'),
    ('evict: a thread keeps the slots that it made free', 'unit-map-evict', 'shm/map/evict/evict-pass.c',
     'keep_few(actor, trie, step.slab);', '(void) keep_few;'),
    ('evict: small entries go as soon as large ones', 'unit-map-evict', 'shm/map/evict/evict.c',
     'used || is_small(trie, cost)', 'used'),
    ('evict: the entries of the mean stay with the thread', 'unit-map-evict', 'shm/map/state/tally.h',
     'count == SHM_MAP_INSERTS && n >= SHM_TALLY_INSERTS', 'false'),
    ('evict: a class that is swept often gets no slab', 'unit-map-evict', 'shm/map/evict/evict.c',
     'if (sweeps_ahead(now, last) >= LEAD_MAX)', 'if (0)'),
    ('evict: slabs of other classes are not emptied', 'unit-map-evict', 'shm/map/evict/evict.c',
     'if (cost < size)', 'if (0)'),
    ('evict: entries take the slab that was emptied for a node', 'unit-map-evict', 'shm/map/evict/evict.c',
     'if (own.map != 0 && s.emptied && !evict->for_index)',
     'if (own.map != 0 && s.emptied)'),
    ('evict: a slab with heads of large entries is emptied whole', 'unit-map-evict', 'shm/map/evict/evict.c',
     ' && (*cost < size || last <= enough)', ''),
    ('evict: slabs without entries are emptied', 'meson:unit-map-evict/test_evict_among_chunks',
     'shm/map/evict/evict-pass.c',
     ' || !has_victims(trie, slab, slots, old))', ' || (0 && !has_victims(trie, slab, slots, old)))'),
    ('evict: whole slabs go to the class of the head alone', 'unit-map-evict', 'shm/map/evict/evict.c',
     'any_slab ? NO_KEY : s->key', 's->key'),
    ('evict: what is left of a head is an entry', 'meson:unit-map-evict/test_evict_among_copies',
     'shm/map/evict/evict-pass.c',
     'if (find_victim(trie, slot_id(slab, (uint32_t) __builtin_ctzll(slots)), old, &view, &c))',
     'if (view_leaf(trie, slot_id(slab, (uint32_t) __builtin_ctzll(slots)), &view) && (c.value = 0, 1))'),
    ('evict: without a note all entries are tried', 'unit-map-evict-steps', 'shm/map/evict/evict.c',
     '                        if (!can_delete(actor))\n                                return -ENOBUFS;\n', ''),
    ('evict: the note of a kept path is none that is left', 'unit-map-evict-steps', 'shm/map/evict/evict.c',
     'return shm_actor_can_note(actor) || shm_trie_settle_kept(actor);', 'return shm_actor_can_note(actor);'),
    ('evict: the same, where memory is short', 'unit-map-evict-steps', 'shm/map/evict/evict.c', '|| !can_delete(actor) ||', '||'),
    ('evict: the same, where memory was short', 'unit-map-evict-steps', 'shm/map/evict/evict.c', ' || !can_delete(actor))\n', ')\n'),
    ('evict: a search without which the put fails ends too soon', 'unit-map-evict', 'shm/map/evict/evict.c',
     '.looks = LOOKS_ALL', '.looks = LOOKS_MAX'),
    ('evict: a search looks at all slabs, sweep by sweep', 'unit-map-evict-steps', 'shm/map/evict/evict-pass.c',
     '                --*looks;\n', ''),
    ('evict: a look at a claim is no longer than one at a slab', 'unit-map-evict-steps', 'shm/map/evict/evict-pass.c',
     '#define VICTIM_LOOKS 20U', '#define VICTIM_LOOKS 0U'),
    ('evict: each search begins where the last one began', 'unit-map-evict-steps', 'shm/map/evict/evict-pass.c',
     '.from = ret->from, .to = h, .slab = slab', '.from = ret->from, .to = ret->from, .slab = slab'),
    ('evict: a value larger than the pool empties the map', 'unit-map-evict', 'shm/map/evict/evict.c',
     '(evict->chained && !may_fit(actor, &own, evict->cost)) ||', ''),
    ('evict: a value larger than all entries empties the maps', 'meson:unit-map-evict/test_evict_nothing_in_vain',
     'shm/map/evict/evict-from.c', 'return taken <= evictable || cost + taken - evictable <= size;', 'return true;'),
    ('evict: slots beside entries are no room', 'meson:unit-map-evict/test_evict_sparse', 'shm/map/evict/evict-from.c',
     'taken = taken_bytes(trie);', 'taken = size + 0 * taken_bytes(trie);'),
    ('evict: slots of indexes are no room', 'meson:unit-map-evict/test_evict_sparse', 'shm/map/evict/evict-from.c',
     'if (slab_word_epoch(w) != slab_word_epoch(index))', 'if (index.high + 1)'),
    ('evict: entries of another map are counted as the own', 'map-evict/beside-get', 'shm/map/evict/evict.c',
     'shm_tally_begin(s->actor, from);', ''),
    ('evict: a put into one map is counted as one into another', 'unit-map-evict', 'shm/map/evict/evict.c',
     '''        turn_back(s);
        return cost;''', 'return cost;'),
    ('evict: other maps lose nothing', 'unit-map-evict', 'shm/map/evict/evict-from.h',
     'return shm_map_set_load(&trie->arena->header->evicting);', 'return shm_evict_own(trie);'),
    ('evict: nobody knows that a map evicts', 'unit-map-evict', 'shm/map/evict/evict.c',
     'shm_evict_offer(trie, true);', ''),
    ('evict: a map with nothing to give is searched by each put', 'meson:unit-map-evict/test_evict_beside_nothing',
     'shm/map/evict/evict.c', 'shm_evict_offer(from, cost != 0);', 'shm_evict_offer(from, true);'),
    ('evict: maps that are not known to evict give nothing', 'meson:unit-map-evict/test_evict_beside_unknown',
     'shm/map/evict/evict.c', 'cost = evict_in_all_maps(s, trie, &maps, n_tries);', ';'),
    ('evict: maps that evict again are not known to', 'meson:unit-map-evict/test_evict_beside_unknown',
     'shm/map/evict/evict.c', 'shm_evict_offer(from, cost != 0);', 'if (cost == 0) shm_evict_offer(from, false);'),
    ('evict: maps that do not evict lose entries', 'meson:unit-map-evict/test_evict_beside_never', 'shm/map/evict/evict-from.c',
     '&& shm_map_options_evict(ret) != SHM_MAP_EVICT_NEVER', ''),
    ('evict: other maps lose entries when the own has none', 'unit-map-evict', 'shm/map/evict/evict-from.c',
     'i == trie->map - 1 ? 0 : bytes / MARGIN_SHARE', 'i == trie->map - 1 ? 0 : bytes'),
    ('evict: the own map loses entries before the largest does', 'unit-map-evict', 'shm/map/evict/evict.c',
     'shm_evict_from(trie, &maps, &other) != trie ||', '((void) maps, (void) other, false) ||'),
    ('evict: the largest map is emptied where its slabs have objects', 'meson:unit-map-evict/test_evict_beside_objects',
     'shm/map/evict/evict.c', 'n_tries == OWN_TRY && ', 'n_tries > TRIES_MAX && '),
    ('evict: the same, with deaths', 'map-evict/beside-objects', 'shm/map/evict/evict.c', 'n_tries == OWN_TRY && ',
     'n_tries > TRIES_MAX && '),
    ('evict: an entry that goes in the fourth try is not noted', 'map-evict/beside-objects', 'shm/map/trie/trie-change.c',
     '''        if (old) {
                r = shm_actor_note(''', '''        if (0) {
                r = shm_actor_note('''),
    ('evict: a slot of one class is looked for in all slabs of another map',
     'meson:unit-map-evict-steps/test_evict_beside_other_keys', 'shm/map/evict/evict.c',
     '|| !is_own;', '|| (0 && is_own);'),
    ('evict: maps without entries are searched', 'meson:unit-map-evict-steps/test_evict_beside_empty',
     'shm/map/evict/evict-from.c', ' && has_entries(trie->arena, i)', ''),
    ('evict: a walk over all slabs in vain is made again', 'unit-map-evict-steps', 'shm/map/evict/evict.c',
     'if (unfit->until_ms > begun && cost >= unfit->cost && n_free == unfit->n_free)', 'if (0)'),
    ('evict: after a walk in vain, no value has room', 'unit-map-evict', 'shm/map/evict/evict.c',
     'if (unfit->until_ms > begun && cost >= unfit->cost &&', 'if (unfit->until_ms > begun &&'),
    ('evict: after a walk in vain, slabs that came free are not seen', 'unit-map-evict', 'shm/map/evict/evict.c',
     ' && cost >= unfit->cost && n_free == unfit->n_free)', ' && cost >= unfit->cost)'),
    ('search: all words are looked at', 'unit-map-evict-steps', 'shm/slab/search.c', ' && i < WORDS_MAX', ''),
    ('search: the same words are looked at', 'unit-object', 'shm/slab/search.c', 'actor->searched = slab + 1;', ''),
    ('evict: a search in vain is made again', 'unit-map-evict', 'shm/map/evict/evict.c',
     'if (vain->until_ms > begun && vain->stamp == stamp)', 'if (0)'),
    ('evict: after a search in vain nothing is found any more', 'unit-map-evict', 'shm/map/evict/evict.c',
     'if (vain->until_ms > begun && vain->stamp == stamp)', 'if (vain->until_ms > begun)'),
    ('evict: a put into a map that does not evict gets nothing', 'unit-map-evict', 'shm/map/evict/evict.c',
     'if (n_tries >= TRIES_MAX || !can_delete(actor) ||\n', 'if (n_tries >= TRIES_MAX || own.map == 0 || !can_delete(actor) ||\n'),
    ('evict: objects get nothing of maps', 'unit-map-evict', 'shm/map/evict/evict.c',
     '!evict_for(&s, &none, n_tries)', '(evict_for != NULL && s.actor != NULL)'),
    ('evict: after an eviction for an object, the map stays noted', 'unit-map-evict', 'shm/map/evict/evict.c',
     '        shm_tally_end(s->actor, s->from);\n', ''),
    ('evict: what was found by eviction counts as failed', 'unit-map-evict', 'shm/map/evict/evict.c',
     '        shm_cache_uncount_failure(actor);\n', ''),
    ('evict: the first map that has nothing to give is the last', 'unit-map-evict', 'shm/map/evict/evict.c',
     'while (cost == 0 && (from', 'if (cost == 0 && (from'),
    ('evict: a slab is emptied of one map alone', 'meson:unit-map-evict/test_evict_beside_mixed', 'shm/map/evict/evict.c',
     'if (empty_of_map(s, slab, size, &cost))', 'if (empty_of_map(s, slab, size, &cost) || slab != UINT32_MAX)'),
    ('evict: stale gets are no uses', 'unit-map-evict', 'shm/map/entry/claim.c', 'shm_evict_visit_entry(trie, view);', ''),
    ('evict: adds by version are no uses', 'unit-map-evict', 'shm/map/entry/cell.c', 'shm_evict_visit(trie, cell);', ''),
    ('expiry: an entry is looked for in the map of the one before', 'unit-map-expiry', 'shm/map/entry/expiry.c',
     'return (ret->map == map && ret->root == shm_root_of(arena, map - 1)) ||',
     'return ret->map != 0 ||'),
    ('trie: paths are fetched from outside of the slabs', 'unit-map-expiry', 'shm/map/trie/trie-walk.c',
     'node = trie_node(trie, end->node, level);',
     '''node = (uint64_t *) (shm_arena_slab(trie->arena, slot_id_slab(shm_handle_slot(end->node))) +
                             slot_id_slot(shm_handle_slot(end->node)) * level->stride);'''),
    ("expiry: a slab's first end is stored after the look", 'map-cell/put-pass', 'shm/map/entry/expiry.c',
     '        (void) shm_xchg_acqrel(line, 0);\n', '', '''        if (left != 0)
                (void) shm_expiry_lower(line, left);''', '        shm_store_rel(line, left);'),
    ("expiry: the arena's first end is stored after the look", 'map-cell/put-pass', 'shm/map/entry/expiry.c',
     'uint64_t left = shm_xchg_acqrel(&expiry->first, PASS_BEGUN);', 'uint64_t left = shm_load_acq(&expiry->first);',
     '(void) shm_expiry_lower(&expiry->first, left);', 'shm_store_rel(&expiry->first, left);',
     '(void) shm_cas_acqrel(&expiry->first, &left, 0);', 'shm_store_rel(&expiry->first, 0);'),
    ('expiry: no entry has an end, while a step is under way', 'map-cell/count-pass', 'shm/map/entry/expiry.c',
     'shm_xchg_acqrel(&expiry->first, PASS_BEGUN);', 'shm_xchg_acqrel(&expiry->first, 0);'),
    ('map count: an entry that is over, and is freed beside it', 'map-cell/count-pass', 'shm/map/entry/map-scan.c',
     '''        if (shm_map_view(trie->arena, leaf, &view) != 0)
                return false;
''', '''        if (!shm_object_live(trie->arena, leaf))
                return false;
        if (shm_map_view(trie->arena, leaf, &view) != 0)
                return true;
'''),
    ('expiry: an end that is noted between two steps is that of no entry', 'map-cell/put-later-pass', 'shm/map/entry/expiry.c',
     '#define PASS_BEGUN UINT64_MAX', '#define PASS_BEGUN UINT64_C(1)'),
    ('map put: a death before the end is noted is not known', 'map-cell/put-pass', 'shm/map/entry/put.c',
     '''        shm_tally_begin(actor, trie);
        do {
                r = put_once''', '''        do {
                r = put_once'''),
    ('tally: added to the state by a plain store', 'map-tally/turn-turn', 'shm/map/state/tally.c',
     '(void) shm_add_acqrel(&actor->arena->header->maps[map - 1].counts[i], n);',
     '''shm_store_rlx(&actor->arena->header->maps[map - 1].counts[i],
                                      shm_load_rlx(&actor->arena->header->maps[map - 1].counts[i]) + n);'''),
    ('tally: a death while it is added is not known', 'map-tally/turn-turn', 'shm/map/state/tally.c',
     'shm_store_rlx(&record->map, shm_load_rlx(&record->tally.map));', ''),
    ('tally: counts of the map before go to the next one', 'map-tally/turn-turn', 'shm/map/state/tally.c',
     '''        shm_tally_flush(actor);
        shm_store_rel(&record->map, 0);''', '        shm_store_rel(&record->map, 0);'),
    ('guard: not stored', 'map-revoke/index-put', 'shm/arena/note.h',
     '        shm_store_rlx(&actor->record->guard, handle);', ''),
    ('guard: tag read before the store', 'map-revoke/index-put', 'shm/arena/note.h',
     '''        shm_store_rlx(&actor->record->guard, handle);
        if''', '''        bool was = shm_load_acq(tag) == shm_handle_tag(actor->arena->key, handle);
        shm_store_rlx(&actor->record->guard, handle);
        if (was)
                return true;
        if'''),
    ('guard: tag not read', 'map-revoke/index-put', 'shm/arena/note.h',
     '''        if (shm_load_acq(tag) == shm_handle_tag(actor->arena->key, handle))
                return true;
''', '        return true;'),
    ('guard: over before the compare-and-set', 'map-revoke/index-put', 'shm/map/trie/trie-change.c',
     'if (shm_trie_is_leaf(value) && !trie_live(trie->arena, value)) {',
     'shm_actor_unguard(actor);\n        if (shm_trie_is_leaf(value) && !trie_live(trie->arena, value)) {'),
    ('trie: a word counts though its node is stale', 'map-revoke/index-delete', 'shm/map/trie/trie-walk.h',
     'return trie_live(trie->arena, c->node) ? 0 : SHM_TRIE_E_CHANGED;', 'return 0;'),
    ('trie seek: a word counts though its node is stale', 'unit-trie', 'shm/map/trie/trie-walk.c',
     '!trie_live(arena, node) ||', ''),
    ('allowance: a commit that fails keeps it', 'unit-pages', 'shm/slab/pages.c',
     'return_allowance(actor, n - done);', ''),
    ('allowance: pages that were not made keep it', 'unit-pages', 'shm/slab/pages.c',
     '''                return_allowance(actor, n);
''', '                (void) 0;\n'),
    ('shortcut: a leaf is unlinked without a mark', 'map-shortcut/get-put', 'shm/map/trie/trie-change.c',
     'if (__builtin_expect(end != NULL, 0))', 'if (0)'),
    ('shortcut: the mark comes after the leaf was unlinked', 'map-shortcut/get-delete', 'shm/map/trie/trie-change.c',
     '''                if (__builtin_expect(end != NULL, 0))
                        mark_leaving(trie, c->value, end);
                if (trie_swap(c, value)) {
                        lost = is_lost(trie, c, value);
                        r = 0;
                }
''', '''                if (trie_swap(c, value)) {
                        lost = is_lost(trie, c, value);
                        r = 0;
                }
                if (__builtin_expect(end != NULL, 0))
                        mark_leaving(trie, c->value, end);
'''),
    ('shortcut: the mark on an end that was read after the look at the tag', 'map-shortcut/put-free',
     'shm/map/trie/trie-change.c', '|| !trie_live(trie->arena, leaf))', ')'),
    ('shortcut: a get does not look for the mark', 'map-shortcut/get-put', 'shm/map/entry/map.c',
     'view->marks != 0 || view->head.map', 'view->head.map'),
    ('shortcut: a get does not look at the root', 'map-shortcut/get-remove', 'shm/map/entry/map.c',
     'return trie_live(trie->arena, trie->root) && !trie_is_removed(trie);', 'return true;'),
    ('shortcut: a touch drops the mark', 'unit-map-shortcut', 'shm/map/state/lifetime.c',
     '(expires | view->marks) ^ seal', 'expires ^ seal'),
    ('shortcut: any live object is believed', 'unit-map-shortcut', 'shm/map/entry/shortcut.c',
     'return tag & 1 && (tag & TAG_MASK) == (word >> TAG_SHIFT & TAG_MASK)', 'return tag & 1'),
    ('shortcut: a leaf is believed before it is linked', 'map-shortcut/get-insert-late', 'shm/map/entry/put.c',
     'end | (leaf->shortcut ? SHM_LEAF_ARRIVING : 0)', 'end'),
    ('shortcut: a leaf is believed before it is linked, and its word moves', 'map-shortcut-pages/grow-insert-get',
     'shm/map/entry/put.c', 'end | (leaf->shortcut ? SHM_LEAF_ARRIVING : 0)', 'end'),
    ('shortcut: a get does not look for the mark of a new leaf', 'map-shortcut/get-insert-late', 'shm/map/entry/map.c',
     'view->marks != 0 || view->head.map', 'view->marks == SHM_LEAF_LEAVING || view->head.map'),
    ('shortcut: an eviction unlinks a leaf without a mark', 'map-shortcut/get-evict', 'shm/map/trie/trie-change.c',
     'end = find_end(trie, old);', 'end = NULL;'),
    ('shortcut: an entry that is over is believed', 'map-shortcut/get-pass', 'shm/map/entry/map.c',
     'return !view->is_over;', 'return true;'),
    ('shortcut: an entry whose tag is gone is believed', 'map-shortcut/get-invalidate', 'shm/map/entry/map.c',
     'return !view->is_over;', 'return true;'),
    ('shortcut: a take unlinks a leaf without a mark', 'map-shortcut/get-take', 'shm/map/trie/trie-change.c',
     'if (__builtin_expect(end != NULL, 0))', 'if (0)'),
    ('shortcut: a delete before an add leaves no mark', 'map-shortcut/get-delete-add', 'shm/map/trie/trie-change.c',
     'if (__builtin_expect(end != NULL, 0))', 'if (0)'),
    ('shortcut: pages that went meanwhile are in use', 'map-shortcut-pages/grow-trim', 'shm/map/entry/shortcut.c',
     'if (note_made(arena, n + more) && done && !shm_pages_make(', 'if (0 && done && !shm_pages_make('),
    ('shortcut: pages that came meanwhile are in use, and go', 'map-shortcut-pages/grow-trim', 'shm/map/entry/shortcut.c',
     'if (now > needed && !shm_pages_make(', 'if (0 && !shm_pages_make('),
    ('shortcut: no leaf is ever believed', 'unit-map-shortcut', 'shm/map/entry/put.c',
     '(void) shm_cas_acqrel(leaf->end, &expected, end);', '(void) expected;'),
    ('shortcut: each put looks for memory for the table', 'unit-map-shortcut', 'shm/map/entry/shortcut.c',
     'if (__builtin_expect(shm_shortcut_is_turn(hash), 0))', 'if (!line || shm_shortcut_is_turn(hash))'),
    ('shortcut: puts that evict give no pages back', 'unit-map-shortcut', 'shm/map/entry/shortcut.c',
     '''        add_pages(actor, needed);
        trim_pages(actor, needed);''', '        add_pages(actor, needed);'),
    ('shortcut: a root is written to without a guard', 'unit-map-shortcut', 'shm/map/entry/shortcut.c',
     '''        if (!shm_actor_guard(actor, trie->root))
                return;
        /* ORDER: rel, pairs with trie_has''', '        /* ORDER: rel, pairs with trie_has'),
    ('shortcut: the entry of another map is believed', 'unit-map-shortcut', 'shm/map/entry/shortcut.c',
     'return hash ^ trie->shortcut_mix;', 'return hash;'),
    ('trie exchange: a stale leaf is linked', 'unit-map-death', 'shm/map/trie/trie-change.c',
     'if (shm_trie_is_leaf(value) && !trie_live(trie->arena, value)) {', 'if (0) {'),
    ('trie exchange: the old leaf is not put back', 'map-revoke/put-over', 'shm/map/trie/trie-change.c',
     'return lost && put_back(', 'return 0 && put_back('),
    ('trie exchange: the old leaf is not put back where it has moved', 'map-revoke/delete-put-over',
     'shm/map/trie/trie-change.c', 'if (!seek_leaf(trie, c->hash, leaf, &at))',
     'if (!seek_leaf(trie, c->hash, leaf, &at) || at.word != c->word)'),
    ('trie exchange: the old leaf is put back into the first word of a bucket alone', 'map-revoke/put-over-in-bucket',
     'shm/map/trie/trie-change.c', 'while (r == 0 && ret->value != leaf)', 'if (r == 0 && ret->value != leaf)',
     'r = shm_trie_next(trie, ret);', 'r = SHM_TRIE_E_LAST;'),
    ('trie exchange: the leaf is noted until it is to be linked', 'map-revoke/old-put', 'shm/map/trie/trie-change.c',
     '''        r = link_word(actor, trie, c, value, end);
''', '''        if (shm_trie_is_leaf(value))
                (void) shm_actor_unnote(actor, value);
        r = link_word(actor, trie, c, value, end);
'''),
    ('map take: the value of a leaf that was revoked', 'map-revoke/old-take', 'shm/map/entry/take.c',
     '        if (!final.done)\n                return -ENOENT;\n', ''),
    ('trie split: the node is not noted', 'map-revoke/index-split-late', 'shm/map/trie/trie-change.c',
     'sizeof(uint64_t), trie->epoch, &pending,', 'sizeof(uint64_t), trie->epoch, NULL,'),
    ('map put: the leaf is not noted', 'map-revoke/put-late', 'shm/map/entry/put.c',
     'shm_object_alloc(actor, leaf->size, head->epoch, &pending, &handle, &object)',
     'shm_object_alloc(actor, leaf->size, head->epoch, NULL, &handle, &object)'),
    ('map put: not begun anew', 'map-revoke/put', 'shm/map/entry/put.c',
     'r == SHM_TRIE_E_CHANGED || r == SHM_TRIE_E_STALE ||', 'r == SHM_TRIE_E_CHANGED ||'),
    ('revoke: no membarrier before guards are read', 'map-revoke/index-put-late', 'tests/model/map-world.h',
     '                ;\n        world_fence(); /* after tags, before guards */\n', '                ;\n'),
    ('refs: guards are not read', 'map-revoke/index-put', 'shm/maintain/refs.c',
     '        gather_handle(refs, shm_load_acq(&r->guard));\n', ''),
    ('check: a slot that changed meanwhile is decided on', 'check/moved', 'shm/maintain/check.c',
     's->slots & shm_slab_view_same(&s->view, after)', 's->slots'),
    ('check: slots of a revocation that has just ended are lost', 'revoke/check', 'shm/maintain/check.c',
     'same &= ~v.lost | lost_still(c, after, v.lost);', '(void) lost_still;'),
    ('check: what is in flight is lost', 'check/free', 'shm/maintain/check.c',
     'v.lost = bits & ~live & ~(held | ref->in_flight)', 'v.lost = bits & ~live & ~held'),
    ('check: a hint is wrong at first sight', 'meson:unit-check/test_late_hint', 'shm/maintain/check.c',
     'if (wrong && last)', 'if (wrong)'),
    ('check: a hint is wrong though an intent names its slab', 'check/drain', 'shm/maintain/check.c',
     ' && !shm_refs_touch(&c->refs, slab, level)', ''),
    ('check: gives back without an intent', 'check/lost-drain', 'shm/maintain/reach.c',
     'bool stands = shm_load_rlx(&control->record->intent_what) != 0, done;', 'bool stands = true, done;'),
    ('check: the slab of a thread that lives is taken from it', 'check/holder', 'shm/maintain/repair.c',
     'shm_record_owner(control->arena, holder).state != SHM_RECORD_UNUSED', 'false'),
    ('check: the slab is taken from the next owner of its record', 'check/holder', 'shm/maintain/repair.c',
     'shm_slab_word(control->arena, slab).high != w.high', 'false'),
    ('revoke: slots are collected though membarrier failed', 'map-denied/index-put', 'shm/maintain/close.c',
     'close->unfenced ? SHM_CLOSE_EV_UNFENCED : SHM_CLOSE_EV_MARKED', 'SHM_CLOSE_EV_MARKED'),
    ('revoke: threads that do not fence are taken for such', 'map-denied/index-put', 'shm/maintain/freeze.c',
     '!(shm_load_rlx(&shm_arena_record(arena, i)->flags) & SHM_RECORD_FENCES)', 'false'),
    ('guard: no fence where there is no membarrier', 'map-denied/index-put-fences', 'shm/arena/note.h',
     '        if (actor->fences)\n                shm_fence_sc();', ''),
    ('refs: notes are not read', 'pending-revoke/pop', 'shm/maintain/refs.c',
     '                gather_handle(refs, handle);\n                if (handle != 0)', '                if (handle != 0)'),
    ('refs: a note of an object that is stale by now counts for nothing', 'pending-revoke/uncached', 'shm/maintain/refs.c',
     'if (tag + 1 == noted || tag == noted + 1)', 'if (tag + 1 == noted)'),
    ('trim: slabs are dropped after their words say so', 'maintain/trim-refill', 'shm/slab/pages.c',
     '''                punch_group(arena, group, taken);
                end_group(control, group, held);
''', '''                end_group(control, group, held);
                punch_group(arena, group, taken);
'''),
    ('trim: caches of threads inside a call are emptied', 'maintain/trim-pop', 'shm/maintain/freeze.c',
     '        return freeze->seq[record] & 1 &&', '        return 0 &&'),
    ('check: a word whose class is one too many is decoded', 'meson:unit-check/test_garbage_word', 'shm/maintain/check.c',
     'slab_word_class(w) < arena->n_classes &&', 'slab_word_class(w) <= arena->n_classes &&'),
    ('check: the word of a class that is one too many is sound', 'meson:unit-check/test_garbage_word',
     'shm/maintain/check-facts.c',
     'slab_word_class(w) >= arena->n_classes', 'slab_word_class(w) > arena->n_classes'),
    ('repair: slots below those in flight are kept, too', 'unit-repair', 'shm/maintain/repair.c',
     'for (; rest != 0; rest &= rest - 1)', 'for (; rest != 0; rest = rest - 1)'),
    ('tslab_close: no membarrier after the serial is changed', 'meson:model-close/refill-late', 'libclient/pool-close.c',
     '        close_barrier();\n        while (calls_any(pool))', '        while (calls_any(pool))'),
    ('tslab_close: no membarrier after attention is spoilt', 'meson:model-close/pop-late', 'libclient/pool-close.c',
     '        close_barrier();\n        wait_operations', '        wait_operations'),
    ('tslab_close: attention is not spoilt', 'meson:model-close/pop', 'libclient/pool-close.c',
     'shm_store_rlx(&state->actor.attention, UINT64_MAX);', '(void) state;'),
    ('tslab_close: calls are not waited for', 'meson:model-close/refill', 'libclient/pool-close.c',
     '        wait_calls(pool, n_records);\n', ''),
    ('tslab_close: operations are not waited for', 'meson:model-close/pop', 'libclient/pool-close.c',
     '        wait_operations(pool, n_records);\n', ''),
    ('tslab_close: a call does not look at the serial again', 'meson:model-close/refill', 'libclient/pool/enter.h',
     'if (__builtin_expect(!pool_is_closed(pool), 1))', 'if (1)'),
    ('maintainer: a membarrier that fails is told again and again', 'meson:daemon-denied/test_denied_told_once',
     'daemon/work/maintainer.c', 'maintainer->membarrier_told = r < 0;', ''),
    ('identity: a handle gets the entry of another one of its process', 'meson:daemon-identity/test_identity_two_handles',
     'daemon/peer/client-resume.c',
     'client = find_client(clients, from->entry - 1);',
     '''for (client = clients->first; client && client->pid != session->peer.pid;)
                client = client->next;'''),
    ('identity: entries of earlier programs stay', 'meson:daemon-identity/test_identity_exec_self',
     'daemon/request/request-attach.c',
     'client_exec_end_others(clients, &identity, attach->program);', '(void) 0;'),
    ('identity: a pool that is closed without a daemon leaves its entry',
     'meson:daemon-identity/test_identity_closed_without_daemon', 'libclient/host/daemon.c',
     'shm_client_leave(&pool->arena, pool->local->client);', '(void) 0;'),
    ('epoch: an id in lease is opened anew', 'unit-epoch', 'shm/epoch/epoch-open.c',
     ' || epoch_load_owner(arena, id) != 0)', ')'),
    ('revoke: the records are read for each slab', 'meson:daemon-longest/test_revoke_idle', 'shm/maintain/revoke.c',
     'while (reach->refs.n < SHM_REFS_MAX && ', 'while (reach->refs.n < 1 && '),
    ('close: walked over and over while objects live', 'unit-maintain', 'shm/maintain/close.c',
     'bool settled = close->walk.final && ', 'bool settled = close->walk.final && close->walk.n_left == 0 && '),
    ('freeze: a step empties all caches of a record', 'meson:daemon-longest/test_steps_left', 'shm/maintain/freeze.c',
     'for (; *n > 0; --*n, freeze->n_emptied++)', 'for (;; freeze->n_emptied++)'),
    ('put: a large leaf is made before the look, whatever the look may find', 'unit-map', 'shm/map/entry/put.c',
     'leaf->handle == 0 && put->mode == SHM_MAP_PUT &&', 'leaf->handle == 0 &&'),
    ('put: a put that lacks a node or a part is not tried past the caches', 'unit-map', 'shm/map/entry/put.c',
     'if (spare_slabs(actor, trie, leaf))', 'if (0 && spare_slabs(actor, trie, leaf))'),
    ('put: a put that lacks a node is not tried past the caches, beside others', 'map-tight/put', 'shm/map/entry/put.c',
     'if (spare_slabs(actor, trie, leaf))', 'if (0 && spare_slabs(actor, trie, leaf))'),
    ('put: a put that lacks a part of its value is not tried past the caches', 'unit-map', 'shm/map/entry/put.c',
     '''                leaf->lacks_part = true;
''', ''),
    ('put: a put that cannot fit is tried past the caches', 'unit-map', 'shm/map/entry/put.c',
     'if (!has_slabs(trie->arena, leaf))', 'if (0)'),
    ('put: past the caches, the cache has the slot of the leaf that was freed', 'unit-map', 'shm/map/entry/put.c',
     '        (void) shm_cache_drain(actor);\n', ''),
    ('put: the actor goes on past its caches', 'unit-map', 'shm/map/entry/put.c',
     '        actor->mode = leaf.mode;\n', ''),
    ('search: a free slab is taken for a partial one, though it is to be spared', 'unit-map', 'shm/slab/search.c',
     'return (actor->mode == SHM_CACHE_SPARING || want->before != 0) && ', 'return want->before != 0 && '),
    ('search: the same, beside others', 'map-tight/put', 'shm/slab/search.c',
     'return (actor->mode == SHM_CACHE_SPARING || want->before != 0) && ', 'return want->before != 0 && '),
    ('search: the same, with fewer pieces', 'map-evict/short-tight-get', 'shm/slab/search.c',
     'return (actor->mode == SHM_CACHE_SPARING || want->before != 0) && ', 'return want->before != 0 && '),
    ('put: free slabs are spared once in all, not once for each form of the leaf', 'map-evict/short-tight-get',
     'shm/map/entry/put.c', 'if (spare_slabs(actor, trie, leaf))', 'if (!leaf->is_short && spare_slabs(actor, trie, leaf))'),
    ('put: a leaf whose value lacked memory is freed without its note', 'map-evict/short-tight-get', 'shm/map/entry/put.c',
     '        (void) shm_chain_free(actor, leaf);\n', '''        (void) shm_actor_unnote(actor, leaf);
        (void) shm_chain_free(actor, leaf);
'''),
    ('put: entries are evicted before fewer pieces are tried', 'meson:api-map-evict/test_map_evict_memory_short',
     'shm/map/entry/put.c', 'if (*n_evicted == 0 && ', 'if (0 && '),
    ('put: entries are evicted, and fewer pieces would do', 'map-evict/short-get', 'shm/map/entry/put.c',
     'if (*n_evicted == 0 && ', 'if (0 && '),
    ('put: fewer pieces are not tried at last', 'map-evict/short-last-get', 'shm/map/entry/put.c',
     'return !was_short && leaf_plan_short(actor, trie, key, put, leaf);', 'return false;'),
    ('put: a leaf whose value lacked memory stays', 'map-evict/short-get', 'shm/map/entry/put.c',
     '                leaf_free(actor, trie, key, handle);\n', ''),
    ('put: chains of one size cost the same', 'map-evict/short-get-in-blocks', 'shm/map/entry/put.c',
     'leaf_room(trie, a) == b->room);', '1);'),
    ('chain: made as if its head had no room', 'map-evict/short-get', 'shm/map/entry/put.c',
     'shm_chain_fill(actor, handle, head, leaf_room(trie, leaf),', 'shm_chain_fill(actor, handle, head, 0,'),
    ('chain: freed as if its head had no room', 'map-evict/short-evicted-get', 'shm/map/leaf/chain.c',
     'rest = chain_rest(actor->arena, shape, &view->head, view->room);',
     'rest = chain_rest(actor->arena, shape, &view->head, 0);'),
    ('put: where memory is short, the pieces are as ever', 'meson:api-map/test_map_put_memory_short', 'shm/map/entry/put.c',
     '!leaf_plan(trie, key, put, true, leaf)', '!leaf_plan(trie, key, put, false, leaf)'),
    ('chain: where memory is short, words are in a block', 'meson:api-map/test_map_put_memory_short', 'shm/map/leaf/chain.c',
     'return is_short || slot_cost(', 'return slot_cost('),
    ('chain: where memory is short, a value is in two pieces', 'meson:api-map/test_map_put_memory_short', 'shm/map/leaf/chain.c',
     '''        if (is_short)
                return head_short(arena, whole);
''', ''),
    ('evict: no more in later tries than in the first', 'meson:api-map-evict/test_map_evict_among_chunks', 'shm/map/evict/evict.c',
     '(size << n_tries) - cost', 'size - cost'),
    ('chain: the head is freed before its chunks', 'map-chain/put-delete', 'shm/map/leaf/chain.c',
     '''        free_all_chunks(actor, &view);
        final = shm_map_view_final(actor->arena, &view);
        return shm_object_finish(actor, leaf, &final);''', '''        final = shm_map_view_final(actor->arena, &view);
        int r = shm_object_finish(actor, leaf, &final);
        free_all_chunks(actor, &view);
        return r;'''),
    ('chain: chunks are freed from the first on', 'map-chain/put-full', 'shm/map/leaf/chain.c',
     '''        for (n = count_live(actor->arena, handles, n); n > 0; n--)
                (void) shm_object_free(actor, handles[n - 1]);''',
     '''        n = count_live(actor->arena, handles, n);
        for (uint32_t i = 0; i < n; i++)
                (void) shm_object_free(actor, handles[i]);'''),
    ('chain: of a chunk the object is freed that has its slot by now', 'map-chain/free-roll-back', 'shm/map/leaf/chain.c',
     '(void) shm_object_free(actor, handles[n - 1]);',
     '''{
                        SlotId id = shm_handle_slot(handles[n - 1]);
                        uint32_t tag = shm_load_rlx(shm_slot_tag(actor->arena, id));

                        (void) shm_object_free(actor, shm_handle_make(actor->arena->key, id, tag));
                }'''),
    ('chain: of a chunk that was revoked the object is freed that has its slot by now', 'map-chain/free-revoke',
     'shm/map/leaf/chain.c', '(void) shm_object_free(actor, handles[n - 1]);',
     '''{
                        SlotId id = shm_handle_slot(handles[n - 1]);
                        uint32_t tag = shm_load_rlx(shm_slot_tag(actor->arena, id));

                        (void) shm_object_free(actor, shm_handle_make(actor->arena->key, id, tag));
                }'''),
    ('chain: a chunk that is being freed is given back by a revocation', 'map-chain/free-revoke-in-two', 'shm/maintain/refs.c',
     '        gather_intent(refs, refs->intent);\n', '',
     '                gather_intent(refs, shm_record_intent(refs->arena, refs->record));\n', ''),
    ('chain: for a dead thread the object is freed that has the slot of its chunk by now', 'map-chain/died-free-revoke-in-two',
     'shm/map/leaf/chain.c', '(void) shm_object_free(actor, first);',
     '''(void) shm_object_free(actor, shm_handle_make(actor->arena->key, shm_handle_slot(first),
                                                                shm_load_rlx(shm_slot_tag(actor->arena, shm_handle_slot(first)))));'''),
    ('chain: only the chunks of a whole chain are freed', 'map-chain/put-put', 'shm/map/leaf/chain.c',
     'while (n < n_all && shm_object_live(arena, handles[n]))', 'while (0)'),
    ('chain: a block is freed before its chunks', 'map-chain/put-delete-in-blocks', 'shm/map/leaf/chain.c',
     '''        free_chunks(actor, handles, n);
        (void) shm_object_free(actor, block);''', '''        (void) shm_object_free(actor, block);
        free_chunks(actor, handles, n);'''),
    ('chain: blocks are freed from the first on', 'map-chain/put-delete-in-blocks', 'shm/map/leaf/chain.c',
     'ring[n++ % PART] = block;', '''if (n++ < PART)
                        ring[n - 1] = block;'''),
    ('chain: words count though their block may be stale', 'map-chain/free-roll-back-names', 'shm/map/leaf/chain.c',
     'if (shm_object_copy(arena, owner, off, handles, words_size(n)) != 0)',
     'shm_racy_copy(handles, shm_slot_address(arena, shm_handle_slot(owner), 0) + off, words_size(n));\n        if (0)'),
    ('chain: a stale block names the next one', 'map-chain/free-roll-back-names', 'shm/map/leaf/chain.c',
     'n + 1 < n_all ? shm_object_copy(arena, block, off, &next, sizeof(next)) != 0',
     'n + 1 < n_all ? (void) shm_object_live(arena, block),\n                    shm_racy_copy(&next, shm_slot_address(arena, shm_handle_slot(block), 0) + off, sizeof(next)), 0'),
    ('chain: a walk over blocks ends where words say', 'map-chain/delete-loop', 'shm/map/leaf/chain.c',
     'while (n < n_max && block != 0)', 'while (block != 0)', 'if (n + 1 < n_all ? ', 'if (block != 0 ? '),
    ('chain: words are not sealed', 'map-chain/put-over-handles', 'shm/map/leaf/leaf.h',
     'return (leaf << 32 | leaf >> 32) * UINT64_C(0xd6e8feb86659fd93);', 'return leaf & 0;'),
    ('chain: freed, and not condemned', 'map-chain/put-get-alloc', 'shm/map/leaf/chain.c',
     '(void) shm_cas_acqrel(view->at, &raw, first ^ SHM_TRIE_FLIP ^ seal);', '(void) raw;'),
    ('chain: what is in place of the first word is condemned', 'map-chain/free-roll-back-alike', 'shm/map/leaf/chain.c',
     '''        if (shm_trie_is_leaf(first))
                (void) shm_cas_acqrel(view->at, &raw, first ^ SHM_TRIE_FLIP ^ seal);
        else
                first ^= SHM_TRIE_FLIP;
''', '''        while (shm_trie_is_leaf(first) && !shm_cas_acqrel(view->at, &raw, first ^ SHM_TRIE_FLIP ^ seal))
                first = raw ^ seal;
        first = shm_trie_is_leaf(first) ? first : first ^ SHM_TRIE_FLIP;
'''),
    ('chain: a word is condemned that was not the head\'s when it was read', 'map-chain/free-roll-back-alike',
     'shm/map/leaf/chain.c', '''        if (!shm_object_live(arena, view->handle))
                return false;
        if (shm_trie_is_leaf(first))''', '        if (shm_trie_is_leaf(first))'),
    ('chain: the first word is not looked at again', 'map-chain/put-get-alloc', 'shm/map/leaf/leaf.h',
     'if (shm_load_acq(view->at) != view->word || !', 'if (!'),
    ('chain: a chunk is filled without a guard', 'map-chain/put-revoke', 'shm/map/leaf/chain.c',
     '''        if (!shm_actor_guard(f->actor, handle))
                return -ESTALE;
''', ''),
    ('chain: a chunk is filled when its guard is over', 'map-chain/put-revoke-late', 'shm/map/leaf/chain.c',
     'shm_racy_copy(chunk, f->from, size);', 'shm_actor_unguard(f->actor);\n        shm_racy_copy(chunk, f->from, size);'),
    ('chain: the guard of a chunk comes late', 'map-chain/put-revoke-late', 'tests/model/map-world.h',
     '        world_fence(); /* after tags, before guards */\n', ''),
    ('chain: the guard of a chunk comes late, in two pieces', 'map-chain/put-revoke-in-two-late', 'tests/model/map-world.h',
     '        world_fence(); /* after tags, before guards */\n', ''),
    ('chain: the guard of a block comes late', 'map-chain/put-revoke-in-blocks-late', 'tests/model/map-world.h',
     '        world_fence(); /* after tags, before guards */\n', ''),
    ('chain: chunks leave the cache, and then have their bytes', 'map-chain/put-revoke-cached-late', 'shm/cache/batch.c',
     '''                batch_copy(actor, bits, fill, n);
                shm_cache_set_count(cache, count - n);
''', '''                shm_cache_set_count(cache, count - n);
                batch_copy(actor, bits, fill, n);
'''),
    ('chain: the guard of a chunk is stored after the look at its tag', 'map-chain/put-revoke-late', 'shm/arena/note.h',
     '''        shm_store_rlx(&actor->record->guard, handle);
''', '', '''== shm_handle_tag(actor->arena->key, handle))
                return true;
        shm_actor_unguard(actor);''', '''== shm_handle_tag(actor->arena->key, handle))
                return shm_store_rlx(&actor->record->guard, handle), true;
        shm_actor_unguard(actor);'''),
    ('put: the bytes of a leaf are written when its note is over', 'map-revoke/put-late', 'shm/map/entry/put.c',
     '        leaf_fill(object, head, end | (leaf->shortcut ? SHM_LEAF_ARRIVING : 0), key, put, shm_leaf_seal(handle));\n',
     '''        (void) shm_actor_unnote(actor, handle);
        leaf_fill(object, head, end | (leaf->shortcut ? SHM_LEAF_ARRIVING : 0), key, put, shm_leaf_seal(handle));
        (void) shm_actor_note(actor, handle, trie->root, key->hash);
'''),
    ('chain: chunks leave the cache before they have their bytes', 'map-chain/put-revoke-cached', 'shm/cache/batch.c',
     '''                batch_copy(actor, bits, fill, n);
                shm_cache_set_count(cache, count - n);
''', '''                shm_cache_set_count(cache, count - n);
''', '''        shm_actor_leave(actor);
        return n;
}

/* The first handles''', '''        shm_actor_leave(actor);
        batch_copy(actor, bits, fill, n);
        return n;
}

/* The first handles'''),
    ('chain: chunks leave the cache before words name them', 'map-chain/put-get-cached', 'shm/cache/batch.c',
     '''                batch_name(actor, bits, fill, n);
                batch_copy(actor, bits, fill, n);
                shm_cache_set_count(cache, count - n);
''', '''                shm_cache_set_count(cache, count - n);
                batch_name(actor, bits, fill, n);
                batch_copy(actor, bits, fill, n);
'''),
    ('chain: a word is written while the guard is of a chunk', 'map-chain/put-revoke-in-blocks', 'shm/map/leaf/chain.c',
     '''                if (!shm_actor_guard(f->actor, f->owner))
                        return -ESTALE;
''', ''),
    ('chain: words of a block are written without a guard', 'map-chain/put-revoke-in-blocks', 'shm/map/leaf/chain.c',
     '''        if (!shm_actor_guard(f->actor, block))
                return -ESTALE;
''', ''),
    ('chain: a block names the next one without a guard', 'map-chain/put-revoke-in-blocks', 'shm/map/leaf/chain.c',
     '''        if (!shm_actor_guard(f->actor, f->owner))
                return -ESTALE;
''', ''),
    ('chain: a get follows a word that names no slot of the class', 'meson:unit-chain/test_chain_damaged', 'shm/map/leaf/chain.c',
     ' || slot_id_slot(id) >= arena->classes[class].n_slots)', ')'),
    ('chain: a get follows a word that names no live object', 'meson:unit-chain/test_chain_damaged', 'shm/map/leaf/chain.c',
     '!shm_handle_plausible(arena, handle) ||', '(uint32_t) handle % (1U << 30) >= shm_arena_n_slabs_ever(arena) * 64U ||'),
    ('chain: words of a head lie behind its slot', 'unit-chain', 'shm/map/leaf/chain.c',
     'return n <= HEAD_WORDS_MAX && words_size(n - 1) <= most;', 'return n <= HEAD_WORDS_MAX;'),
    ('chain: a head grows for the sake of its words', 'meson:unit-chain/test_chain_bytes', 'shm/map/leaf/chain.c',
     'value_size / WORDS_SHARE', 'value_size'),
    ('chain: a head has a word that names nothing', 'meson:unit-chain/test_chain_bytes', 'shm/map/leaf/chain.c',
     'head_names(most, n) && bytes <= head_most(most, n)', 'head_names(most, n) && bytes == 0'),
    ('chain: a head is linked without its bytes', 'map-chain/put-get-in-two', 'shm/map/leaf/chain.c',
     '''        shm_racy_copy(words + rest.n_words, value, rest.head_bytes);
''', ''),
    ('chain: a value is read from its chunk on', 'map-chain/get-delete-in-two', 'shm/map/leaf/chain.c',
     'if (offset < rest.head_bytes)', 'if (0)'),
    ('chain: a value in two pieces is freed, and not condemned', 'map-chain/put-get-alloc-in-two', 'shm/map/leaf/chain.c',
     '(void) shm_cas_acqrel(view->at, &raw, first ^ SHM_TRIE_FLIP ^ seal);', '(void) raw;'),
    ('chain: of a value in two pieces the head alone is freed', 'map-chain/put-delete-in-two', 'shm/map/leaf/chain.c',
     '''                (void) shm_object_free(actor, first);
                return;
''', '''                return;
'''),
    ('repair: chunks of a dead thread stay', 'map-chain/put-put', 'shm/maintain/rollback.c',
     '''                if (note_has_leaf(arena, handle, root, hash))
                        shm_chain_free_chunks(control, handle);
''', ''),
    ('trie word: the seal is of the slot alone', 'map-shrink/delete-insert-delete', 'shm/map/leaf/trie-word.h',
     '(node << 32 | node >> 32) * ', '(node << 32) * '),
    ('trie word: a reader takes the words of a slot\'s next node for those of the last', 'map-shrink/reuse-get',
     'shm/map/leaf/trie-word.h', '(node << 32 | node >> 32) * ', '(node << 32) * '),
    ('trie shrink: words are not frozen', 'map-shrink/delete-insert', 'shm/map/trie/trie-shrink.c',
     'shm_trie_freeze(raw ^ seal) ^ seal', 'raw'),
    ('trie shrink: a word that is empty is not frozen', 'map-shrink/delete-insert', 'shm/map/trie/trie-shrink.c',
     'return shm_trie_is_frozen(raw ^ seal) ? raw', 'return shm_trie_is_frozen(raw ^ seal) || raw == seal ? raw'),
    ('trie shrink: a path that is kept has no note', 'map-keep/delete-put-delete', 'shm/map/trie/trie-shrink.c',
     'if (shm_actor_renote(actor, *noted, older) != 0)', 'if (shm_actor_unnote(actor, *noted) != 0)'),
    ('trie shrink: the path that was kept before is forgotten', 'unit-map-death', 'shm/map/trie/trie-shrink.c',
     '''        if (actor->kept.note != 0)
                shrink_kept(actor, trie);
''', '''        if (actor->kept.note != 0)
                (void) shm_actor_unnote(actor, actor->kept.note);
'''),
    ('trie shrink: a kept path takes the note of the leaf that is put', 'map-keep/put-insert', 'shm/arena/note.h',
     'return shm_actor_renote(actor, note, handle);', 'return note == handle;'),
    ('trie shrink: a node with an inner node is removed', 'map-shrink/delete-split', 'shm/map/trie/trie-shrink.h',
     'return frozen->n <= 1 && !shm_trie_is_inner(frozen->last);', 'return frozen->n <= 1;'),
    ('trie shrink: two leaves, and one is taken', 'map-shrink/delete-insert', 'shm/map/trie/trie-shrink.h',
     'return frozen->n <= 1 && !shm_trie_is_inner(frozen->last);', 'return !shm_trie_is_inner(frozen->last);'),
    ('trie shrink: the node is not noted', 'map-shrink/delete-update', 'shm/map/trie/trie-shrink.c',
     'r = note_node(actor, trie, removal, noted);', 'r = 0;'),
    ('trie shrink: freed also by a thread that did not unlink it', 'map-shrink/come-and-go-below', 'shm/map/trie/trie-shrink.c',
     '                if (removed)\n', ''),
    ('trie shrink: words are renewed before the tag', 'map-shrink/delete-insert-get', 'shm/map/trie/trie-shrink.c',
     '''        /* ORDER: acqrel, pairs with trie_load_renewed(); all words are frozen before, and written anew after. */
''', '''        (void) renew_words(trie, removal, renewed);
'''),
    ('trie shrink: the word above takes the next tag before all words do', 'map-shrink/delete-insert-get',
     'shm/map/trie/trie-shrink.c', 'if (renew_words(trie, removal, renewed))', 'if (1)'),
    ('trie shrink: words are renewed though the word above changed', 'map-shrink/come-and-go-update',
     'shm/map/trie/trie-shrink.c', '''                if (!trie_link_holds(trie, above))
                        return false;
                if (shm_trie_is_frozen(raw''', '''                if (shm_trie_is_frozen(raw'''),
    ('trie shrink: a node that somebody is at is not looked at again', 'map-shrink/come-and-go-after',
     'shm/map/trie/trie-shrink.c', '''                if (shm_trie_is_frozen(value))
                        return true;
                n +=''', '                n +='),
    ('trie shrink: not looked at again after a removal that failed', 'map-shrink/deep-delete-delete',
     'shm/map/trie/trie-shrink.c', 'if (r == SHM_TRIE_E_CHANGED || (r == 0', 'if ((r == 0'),
    ('trie shrink: the node above is not looked at', 'map-shrink/deep-delete-get', 'shm/map/trie/trie-shrink.c',
     '(r == 0 && is_sparse(trie, &removal.above))', '0'),
    ('trie shrink: others are not helped', 'map-shrink/deep-delete-insert', 'shm/map/trie/trie-shrink.c',
     '(c.node != ret->node || shm_trie_is_frozen(c.value))', '(c.node != ret->node)'),
    ('trie shrink: the node is not guarded while its words are frozen', 'map-denied/index-shrink-fences',
     'shm/map/trie/trie-shrink.c',
     'shm_actor_guard(actor, removal->node) && trie_freeze_words(', 'trie_freeze_words('),
    ('trie shrink: the node above is not guarded', 'map-revoke/index-shrink', 'shm/map/trie/trie-shrink.c',
     'removed = trie_change(actor, &removal->above, at.last);', 'removed = trie_swap(&removal->above, at.last);'),
    ('trie shrink: the node is not guarded while it is renewed', 'map-revoke/index-shrink-link', 'shm/map/trie/trie-shrink.c',
     """        if (!shm_actor_guard(actor, renewed))
                return 0;
""", ''),
    ('trie shrink: a delete takes a second note', 'unit-map-death', 'shm/map/trie/trie-shrink.c',
     'int r = *noted ? shm_actor_renote(', 'int r = 0 ? shm_actor_renote('),
    ('trie shrink: a node below one that is not linked yet is removed from there', 'map-move/deep-move-delete-update',
     'shm/map/trie/trie-shrink.c', '&& !ret->above.unlinked', ''),
    ('trie move: words that are still frozen are left so', 'map-move/reuse-insert', 'shm/map/trie/trie-move.c',
     '        close_words(old, next);\n', ''),
    ('trie move: the note has the version that was linked', 'map-move/alone', 'shm/map/trie/trie-move.c',
     'if (!shm_trie_can_link(next) || shm_actor_renote(actor, *noted, next) != 0)', 'if (!shm_trie_can_link(next))',
     '        *noted = next;\n', ''),
    ('trie move: the tag is not raised', 'map-move/move-insert', 'shm/map/trie/trie-move.c',
     '(void) shm_cas_acqrel(shm_slot_tag(trie->arena, id), &expected, tag + 2);', '(void) expected;',
     'put_back_node(actor, next);', 'put_back_node(actor, old->node);'),
    ('trie move: the node above is not guarded', 'map-move/revoke', 'shm/map/trie/trie-move.c',
     'trie_change(actor, &old->above, other ^ SHM_TRIE_FLIP)', 'trie_swap(&old->above, other ^ SHM_TRIE_FLIP)'),
    ('trie move: the node is not noted', 'map-move/alone', 'shm/map/trie/trie-move.c',
     '|| shm_actor_note(actor, noted, trie->root, old->above.hash) != 0)', ')',
     '|| shm_actor_renote(actor, *noted, next) != 0)', ')'),
    ('trie move: the other node is not noted', 'map-move/alone', 'shm/map/trie/trie-move.c',
     'shm_uncached_alloc_before(actor, key, slab, &pending, ret)', 'shm_uncached_alloc_before(actor, key, slab, NULL, ret)'),
    ('trie move: a node with one leaf is moved', 'map-move/move-delete', 'shm/map/trie/trie-move.c',
     'if (!trie_is_needless(&at)) {', 'if (1) {'),
    ('trie move: what was begun is left where another thread was first', 'map-move/deep-move-move', 'shm/map/trie/trie-move.c',
     '''        if (!moved)
                (void) trie_shrink_path(actor, trie, old->above.hash, &noted);
''', ''),
    ('trie walk: repair frees a node that is being renewed', 'map-move/alone', 'shm/map/trie/trie-walk.c',
     'c.value == inner || is_in(&c, inner)', 'c.value == inner'),
    ('trie walk: repair frees a node that is being renewed, with nodes below', 'map-move/deep-alone',
     'shm/map/trie/trie-walk.c', ' && !is_in(c, stop)', '', ' || is_in(c, stop)', ''),
    ('trie walk: words of a node that is not linked yet are changed', 'map-move/move-update-insert',
     'shm/map/trie/trie-walk.c', 'c->frozen = is_frozen || (r == 0 && c->unlinked);', 'c->frozen = is_frozen;'),
    ('trie walk: what a node that was moved names counts', 'map-move/deep-move-delete-get', 'shm/map/trie/trie-walk.c',
     ' && !trie_link_holds(trie, *renewed)', ' && 0'),
    ('trie walk: the same, as repair asks', 'map-move/deep-move-delete-ask', 'shm/map/trie/trie-walk.c',
     ' && !trie_link_holds(trie, *renewed)', ' && 0'),
    ('trie reload: a node that was not linked yet counts as linked', 'map-move/move-update-get',
     'shm/map/trie/trie-walk.c', '(c->unlinked || (!shm_trie_in_bucket', '((!shm_trie_in_bucket'),
    ('trie scan: words of buckets do not count', 'unit-map-death', 'shm/map/trie/trie-scan.c',
     'scan->n_words += position > scan->position;', ''),
    ('map scan: a place that is gone back to is not counted', 'unit-map-death', 'shm/map/entry/map-scan.c',
     '        scan->n_words = n_words;\n', ''),
    ('map expire: a place that is gone back to is not counted', 'unit-map-death', 'shm/map/entry/map-scan.c',
     'before.n_words = scan->n_words;', ''),
    ('trie walk: of a node that is renewed, the word above is not read again', 'map-shrink/delete-insert-get',
     'shm/map/trie/trie-walk.c', '''        if (!trie_link_holds(trie, above))
                return SHM_TRIE_E_CHANGED;
        if (!is_next''', '        if (!is_next'),
    ('trie walk: of a node that is renewed, the seal before counts', 'map-shrink/delete-insert-get', 'shm/map/trie/trie-walk.c',
     '''        if (shm_trie_is_frozen(c->value))
                c->value = c->raw ^ shm_trie_seal(c->node);
''', ''),
    ('trie reload: a frozen word counts though its node may be unlinked', 'map-shrink/delete-update-get',
     'shm/map/trie/trie-walk.c', '''        if (r == 0 && (c->unlinked || (!shm_trie_in_bucket(trie, c) && shm_trie_is_frozen(c->value))))
                r = SHM_TRIE_E_CHANGED;
''', ''),
    ('trie reload: of a node that is renewed, words with the seal before count', 'map-shrink/delete-insert-scan',
     'shm/map/trie/trie-walk.c', '''        if (r == 0 && (c->unlinked || (!shm_trie_in_bucket(trie, c) && shm_trie_is_frozen(c->value))))
                r = SHM_TRIE_E_CHANGED;
''', ''),
    ('trie walk: words that stay can be frozen', 'unit-map-death', 'shm/map/trie/trie-walk.c',
     'if (!trie_is_removable(trie, c->depth) && stop == 0)', 'if (0)'),
    ('revoke: an index node that was renewed is not marked', 'map-revoke/index-renewed', 'shm/maintain/revoke.c',
     'if (!(tag & 1) || !is_revoked(', 'if (1 || !is_revoked('),
    ('trie exchange: the path is shortened after the note', 'map-shrink/delete-update', 'shm/map/trie/trie-change.c',
     '''        if (c->value == 0 && trie_is_removable(trie, c->depth))
                (void) shm_trie_shrink_at(actor, trie, c, &noted);
        if (noted)
                (void) shm_actor_unnote(actor, noted);
''', '''        if (noted)
                (void) shm_actor_unnote(actor, noted);
        noted = 0;
        if (c->value == 0 && trie_is_removable(trie, c->depth))
                (void) shm_trie_shrink_at(actor, trie, c, &noted);
        if (noted)
                (void) shm_actor_unnote(actor, noted);
'''),
    ('trie exchange: a frozen word is changed', 'map-shrink/delete-update', 'shm/map/trie/trie-change.c',
     '''        if (c->frozen)
                return look_again(actor, trie, c);
''', ''),
    ('freeze: a record begins with what the memory held', 'unit-maintain', 'shm/maintain/freeze.c',
     'freeze->epochs[record] = 0;', ';'),
    ('freeze: a record that is left out has what the memory held', 'unit-maintain', 'shm/maintain/freeze.c',
     'freeze->epochs[i] = 0;', ';'),
    ('maintainer: maps are not swept after a revocation', 'unit-maintain', 'shm/maintain/maintain.c',
     '                shm_map_sweeps_ask(&m->sweeps);', '                (void) m;'),
    ('maintainer: a revocation begins the sweep anew', 'unit-maintain', 'shm/map/entry/map-sweep.h',
     '        sweeps->asked++;', '        sweeps->sweep = (ShmMapSweep){}, sweeps->asked++;'),
    ('control: the lock is kept between two slices of a sweep',
     'meson:api-sweep/test_others_work_between', 'libclient/host/control.c',
     'while (proto_now_usec() < end && shm_map_sweeps_due', 'while (shm_map_sweeps_due'),
    ('control: the time of a slice is that of a namespace', 'meson:api-sweep/test_time_namespaces', 'libclient/host/control.c',
     'rested = shm_now_usec()', 'rested = proto_now_usec()', 'moved_usec = shm_now_usec()', 'moved_usec = proto_now_usec()'),
    ('sweeps: one ends what was asked for under way', 'meson:model-map-sweep/revoke', 'shm/map/entry/map-sweep.c',
     'sweeps->ended = sweeps->begun;', 'sweeps->ended = sweeps->asked;'),
    ('sweeps: the end of the one before is that of one that was asked for', 'meson:model-map-sweep/revoke',
     'shm/map/entry/map-sweep.c', '(int64_t) (sweeps->ended - asked) >= 0', '(int64_t) (sweeps->ended - asked) >= -1'),
    ('sweeps: maps that were miscounted under way are counted', 'meson:model-map-sweep/miscounted', 'shm/map/entry/map-sweep.c',
     'sweeps->counted = sweeps->counting;', 'sweeps->counted = shm_map_miscounts(control->arena);'),
    ('sweep: a map that gets its name beside it is taken as counted',
     'meson:unit-map-evict-steps/test_sweep_beside_naming', 'shm/map/entry/map-sweep.c',
     'shm_map_uncounted(arena, sweep->root, asked);',
     'shm_map_uncounted(arena, sweep->root, shm_map_asked(arena, sweep->root));'),
    ('sweeps: a process waits as long as others die', 'meson:unit-map/test_map_sweeps_beside_deaths', 'shm/map/entry/map-sweep.c',
     '(int32_t) (sweeps->counted - miscounts) >= 0', 'sweeps->counted == miscounts'),
    ('sweeps: each slice begins anew what it is asked for', 'meson:model-map-sweep/revoke', 'shm/map/entry/map-sweep.c',
     '        if (!is_under_way(sweep)) {\n', '        if (!is_under_way(sweep) || sweeps->begun != sweeps->asked) {\n'),
    ('control: the place of a sweep in a map is not kept', 'meson:model-map-sweep/go-on', 'libclient/host/control.c',
     '        *place = sweeps;\n', '        if (!sweeps.sweep.opened)\n                *place = sweeps;\n'),
    ('control: the lock is free before the place of a sweep is kept', 'meson:model-map-sweep/go-on', 'libclient/host/control.c',
     '        *place = sweeps;\n', '''        shm_store_rel(&control->arena->header->control_owner.value, 0);
        shm_fence_sc();
        *place = sweeps;
'''),
    ('control: slabs that drained beside it are left by a call that gives memory back', 'meson:model-drained/call',
     'libclient/host/control.c', '''        shm_decay_trim(&pool->local->decay, control, pool->retain, TRIM_MAX);
        control_unlock(pool, false);
        pool_run_deferred(pool);''', '''        shm_decay_trim(&pool->local->decay, control, pool->retain, TRIM_MAX);
        control_unlock(pool, false);'''),
    ('control: slabs that drained beside it are left by a control call', 'meson:model-drained/control',
     'libclient/host/control.c', '''        empty_idle_caches(pool, all);
        control_unlock(pool, false);
        pool_run_deferred(pool);''', '''        empty_idle_caches(pool, all);
        control_unlock(pool, false);'''),
    ('control: slabs that drained beside a walk are left', 'meson:model-drained/drained', 'libclient/host/control.c',
     'while (shm_load_rlx(&pool->arena.header->n_drained.value) != 0);', 'while (0);'),
    ('order: an owner is met before its slab is counted', 'meson:model-drained/call-weak', 'libclient/host/control.c',
     'shm_fence_after_rmw();', ''),
    ('order: drained slabs are looked for before control work is free', 'meson:model-drained/call-weak',
     'libclient/host/control.c', '''shm_owner_release(&pool->arena, left);
        shm_fence_sc();''', 'shm_owner_release(&pool->arena, left);'),
    ('control: a sweep that stood still goes on in its map', 'meson:model-map-sweep/stood-still', 'libclient/host/control.c',
     'if (rested > SWEEP_STALE_USEC)', 'if (0)'),
    ('reap: a sweep of the dead is left', 'meson:api-sweep/test_reap_ends_sweep', 'libclient/host/private.c',
     'control_end_all(pool);', 'control_end(pool);'),
    ('expiry: a thread that helps takes the note of an end away', 'map-cell/put-help', 'shm/map/entry/expiry.c',
     """                if (due)
                        (void) expire_all_slots(&look""", """                if (due && shm_xchg_acqrel(&arena->lines[hand].expires_first, 0))
                        (void) expire_all_slots(&look"""),
    ('expiry: beside an owner that is stopped nobody deletes', 'meson:unit-owner/test_puts_beside_stopped_owner',
     'libclient/host/private-expiry.c', 'if (r == -EBUSY && retry->n_slices > 0)', 'if (0)'),
    ('expiry: a call beside an owner looks at each slab once', 'meson:unit-owner/test_others_are_faster',
     'libclient/host/private-expiry.c', 'if (deleted || retry->n_slabs >= n_ever)', 'if (0)'),
    ('expiry: a call gives up after one look in vain', 'meson:unit-owner/test_over_after_a_look',
     'libclient/host/private-expiry.c', '#define VAIN_MAX 2', '#define VAIN_MAX 1'),
    ('owner: taken without a look at the word', 'owner/two', 'shm/owner/owner.c',
     'return shm_cas_acqrel(owner_at(arena), &word, word_take(word, client, tid));',
     'shm_store_rel(owner_at(arena), word_take(word, client, tid));\n        return true;'),
    ('owner: who came after a dead one is taken for it', 'owner/reborn', 'shm/owner/owner.c',
     '(word_number(word) + 1) << NUMBER_SHIFT', 'word_number(word) << NUMBER_SHIFT'),
    ('owner: work that is left counts as done', 'owner/left', 'shm/owner/owner.c',
     'return (left ? LEFT : 0) |', 'return'),
    ('owner: others wait for one that is stopped', 'meson:unit-owner/test_stopped_owner', 'libclient/map-open.c',
     'if (r == -EBUSY && shm_owner_stands_still(&pool->arena))', 'if (0)'),
    ('expiry: no slice of a sweep is done', 'meson:api-sweep/test_writers_end_sweep', 'libclient/host/private-expiry.c',
     'if (!sweeps || !control_sweep(control))', 'if (true)'),
    ('map expire: leaves are counted alone', 'unit-map', 'shm/map/entry/map-scan.c',
     'scan->pause = scan->n_words + (uint64_t) n_max * WORDS_A_LEAF;', 'scan->pause = UINT64_MAX;'),
    ('repair: nodes that are noted are taken for leaves', 'unit-repair', 'shm/maintain/rollback.c',
     'if (note_has_leaf(arena, handle, root, hash))', 'if (root > SHM_NOTE_NAMED_ROOT)'),
    ('repair: paths of control itself are not shortened', 'map-control/sweep-update', 'shm/maintain/rollback.c',
     '        shm_rollback_paths(control, 0);\n', ''),
    ('repair: objects that control itself noted stay', 'map-control/sweep-update', 'shm/maintain/rollback.c',
     ': shm_object_free(control, handle));', ': 0);'),
    ('repair: paths are not shortened', 'map-shrink/delete-update', 'shm/maintain/repair.c',
     '                shm_rollback_paths(control, repair->record);\n', ''),
    ('near: the answer that was waited for is not looked for', 'meson:api-near/test_one_answer_for_all', 'libclient/near.c',
     'return r == -EEXIST ? -EAGAIN : 0;', 'return 0;'),
    ('near: an end without a beginning revokes an epoch', 'meson:api-near/test_end_without_a_beginning', 'libclient/near.c',
     'near->lease ? tslab_epoch_close(near->map->pool, near->lease, TSLAB_CLOSE_REVOKE) : 0',
     'tslab_epoch_close(near->map->pool, near->lease, TSLAB_CLOSE_REVOKE)'),
    ('near: a forked child gives the cover of its parent', 'meson:api-near/test_a_child_gives_no_cover', 'libclient/near.c',
     '                near->own = near->lease = 0;', '                return;'),
    ('near: an epoch is lost where there is no room for a cover',
     'meson:api-near/test_begin_in_a_full_pool_beside_control_work', 'libclient/near.c',
     'if (r == 0 || r == -ESTALE) /* somebody else revoked it */', ''),
    ('near: the time of an earlier cover is expected', 'meson:api-near/test_end_after_the_epoch_was_revoked',
     'libclient/near.c', 'near->until = (ShmCoverTime){};', '(void) 0;'),
    ('near: the second of two that begin is told to try again', 'meson:crash-near/test_two_begin', 'libclient/near.c',
     'return r == -EAGAIN ? -EBUSY : r;', 'return r;'),
    ('near: the clocks of covers are read last', 'meson:crash-near/test_giver_dies_or_stands_still', 'libclient/near.c',
     '''        ShmCoverTime time = shm_cover_now();
        uint64_t now_usec = shm_clock_read(CLOCK_BOOTTIME) / 1000, left_ms;
''', '''        uint64_t now_usec = shm_clock_read(CLOCK_BOOTTIME) / 1000, left_ms;
        ShmCoverTime time = shm_cover_now();
'''),
    ('near: a fill in an era that is over', 'meson:crash-near/test_cover_ends_as_a_process_fills', 'libclient/near.c',
     'return r == -ESTALE || r', 'return r'),
    ('near: a fill in an epoch that was revoked', 'meson:crash-near/test_cover_ends_as_a_process_fills', 'libclient/near.c',
     'r == -ESTALE || r == -ESHUTDOWN ?', 'r == -ESTALE ?'),
    ('near: the epoch is revoked before the cover ends', 'meson:crash-near/test_giver_dies_or_stands_still',
     'libclient/near.c',
     'r = move_cover(near, &past);', '(void) past;'),
    # Memory orders, which only a weak memory needs.
    ('order: an id comes into a cache before its tag is even', 'check/free-weak', 'shm/cache/cache.c',
     'shm_store_rel(&cache->slots[n], id.value);', 'shm_store_rlx(&cache->slots[n], id.value);'),
    ('order: bytes of a new object before its tag, from a cache', 'bytes/reuse-copy-weak', 'shm/cache/cache-hit.h',
     '        shm_fence_rel(); /* ORDER', '        /* ORDER'),
    ('order: bytes of a new object before its tag, after a refill', 'bytes/free-refill-copy-weak', 'shm/cache/cache.c',
     '        shm_fence_rel(); /* ORDER', '        /* ORDER'),
    ('order: bytes of a new object before its tag, uncached', 'bytes/free-take-copy-weak', 'shm/cache/uncached.c',
     'shm_fence_rel(); /* ORDER', '/* ORDER'),
    ('order: bytes of a new object before its tag, in batches', 'bytes/reuse-copy-batch-weak', 'shm/cache/batch.c',
     '        shm_fence_rel(); /* ORDER', '        /* ORDER'),
    ('order: the tag is read again before the bytes', 'bytes/reuse-copy-weak', 'shm/cache/lookup.c', '        shm_fence_acq();\n', ''),
    ('order: a hint is looked at before the change that it tells of', 'set/add-remove-leaf-weak', 'shm/slab/set.c',
     '        shm_fence_after_rmw();\n', ''),
    ('order: slab words are read before their bit is cleared', 'free/list-weak', 'shm/slab/set.c',
     '        shm_fence_after_rmw(); /* ORDER: sc, pairs with set_bits(); the bits', '        /* ORDER: the bits'),
    ('order: a child is read before its bit is cleared', 'set/add-remove-leaf-weak', 'shm/slab/set.c',
     'shm_fence_after_rmw(); /* ORDER: sc, pairs with set_bits(); the same', '/* ORDER: the same'),
    ('order: a slab word without the changes before it', 'free/claim-give-back-weak', 'shm/slab/slab.c',
     'shm_pair_cas_acqrel(', 'shm_pair_cas_acq('),
    ('order: attention without the emptying before it, read', 'cache/freeze-pop-weak', 'shm/cache/cache.c',
     'shm_load_acq(&actor->record->attention)', 'shm_load_rlx(&actor->record->attention)'),
    ('order: attention without the emptying before it, written', 'cache/freeze-pop-weak', 'shm/epoch/attention.c',
     'shm_store_rel(&shm_arena_record(arena, record)->attention', 'shm_store_rlx(&shm_arena_record(arena, record)->attention'),
    ('order: an operation is over before its changes, written', 'cache/freeze-free-weak', 'shm/arena/actor.h',
     'shm_store_rel(&record->seq', 'shm_store_rlx(&record->seq'),
    ('order: an operation is over before its changes, read', 'cache/freeze-pop-weak', 'shm/maintain/freeze.c',
     'shm_load_acq(&shm_arena_record(arena, record)->seq)', 'shm_load_rlx(&shm_arena_record(arena, record)->seq)'),
    ('order: an operation is over before its changes, read again', 'cache/freeze-pop-weak', 'shm/maintain/freeze.c',
     'shm_load_acq(&r->seq)', 'shm_load_rlx(&r->seq)'),
    ('order: no membarrier in a freeze', 'cache/freeze-pop-weak', 'shm/maintain/freeze.c',
     'return membarrier_call(MEMBARRIER_CMD_PRIVATE_EXPEDITED);', 'return 0;'),
    ('order: a reference is noted, not sc', 'client/ref-ref-weak', 'shm/arena/client.c', 'shm_or_sc(', 'shm_or_acqrel('),
    ('order: a reference is given back, not sc', 'client/unref-unref-weak', 'shm/arena/client.c', 'shm_and_sc(', 'shm_and_acqrel('),
    ('order: references are counted, not sc', 'client/unref-unref-weak', 'shm/arena/client.c', 'shm_load_sc(', 'shm_load_acq('),
    ('order: data is read before the claim stands', 'map-cover/fill-change-weak', 'shm/map/state/lifetime.c',
     '        shm_fence_after_rmw();\n', ''),
    ('order: a key is looked up before its data has changed', 'map-cover/fill-change-weak', 'shm/map/entry/map.c',
     '''        shm_fence_after_rmw();
        shm_tally_begin(actor, trie);''', '        shm_tally_begin(actor, trie);'),
    ('order: an end is noted before the entry has it', 'map-cell/end-pass-weak', 'shm/map/state/lifetime.c',
     '        shm_fence_after_rmw();\n        seen =', '        seen ='),
    ('order: a pass looks at slabs before ends are noted anew', 'map-cell/end-first-pass-weak', 'shm/map/entry/expiry.c',
     '        shm_fence_after_rmw(); /* ORDER: sc, pairs with shm_expiry_lower(); before a look at any slab. */', ''),
    ('order: a pass looks at a slab before its ends are noted anew', 'map-cell/end-pass-weak', 'shm/map/entry/expiry.c',
     '        shm_fence_after_rmw(); /* ORDER: sc, pairs with shm_expiry_lower(); before a look at any leaf. */', ''),
    ('order: a new record copies epochs before it is one', 'advance/born-weak', 'shm/arena/record.c',
     '                shm_fence_after_rmw();\n', ''),
    ('order: records are counted before the epochs changed', 'advance/born-weak', 'shm/epoch/attention.c',
     '        shm_fence_sc();\n', ''),
    ('order: a count without the change before it, written', 'meson:model-map-sweep/count-late-weak', 'shm/map/state/tally.h',
     'shm_store_rel(sum, n)', 'shm_store_rlx(sum, n)'),
    ('order: a count without the change before it, read', 'meson:model-map-sweep/count-late-weak', 'shm/map/state/tally.c',
     '+= shm_load_acq(&tally->counts[i])', '+= shm_load_rlx(&tally->counts[i])'),
    ('order: the count of FREE slabs without their words', 'pages/recount-weak', 'shm/slab/slab.c',
     'shm_add_acqrel(&arena->header->n_free.value, n)', 'shm_add_rlx(&arena->header->n_free.value, n)'),
    ('order: a leaf that a walk finds without its bytes', 'map-claim/claim-walk-weak', 'shm/map/entry/put.c',
     'shm_store_rel(&leaf->expires, end ^ seal)', 'shm_store_rlx(&leaf->expires, end ^ seal)'),
    ('order: a leaf in a trie without its bytes, written', 'map/put-put-weak', 'shm/map/trie/trie-walk.h',
     'shm_cas_acqrel(', 'shm_cas_acq('),
    ('order: the word of a client without what was before it', 'client/enter-give-away-weak', 'shm/arena/client.c',
     'word = shm_load_acq(&c->word); /* ORDER: acq, pairs with shm_client_remove(); before', 'word = shm_load_rlx(&c->word); /*'),
    ('order: a pool is closed while a call has looked, and is not seen', 'meson:model-close/call-weak', 'libclient/pool-close.c',
     '        close_barrier();\n        while (calls_any(pool))', '        while (calls_any(pool))'),
    ('order: a pool is closed before an operation that is over is seen', 'meson:model-close/free-weak', 'libclient/pool-close.c',
     '        close_barrier();\n        wait_operations', '        wait_operations'),
]

GCC = [*(['ccache'] if shutil.which('ccache') else []), 'gcc']
FLAGS = ['-D_GNU_SOURCE', '-std=gnu11', '-O1', '-w', '-fno-strict-aliasing', '-DSHM_STEP']
LIBRARIES = ['-lcmocka', '-lm']
ENGINE = ['delay', 'explore', 'kernel', 'memory', 'report', 'table', 'weak', 'world']  # not for unit tests
FIXTURE = 'tests/util/arena.c'  # for these alone
SECONDS = 300
MESON = 'meson:'
SUITES = ['unit', 'model', 'daemon', 'api', 'crash', 'stress']  # tests that meson builds


def is_for_this_machine(source):
    folder = source.parent
    return folder.parent.name != 'arch' or folder.name == platform.machine()


class Tree:
    """Sources with none, or one, of them replaced, and the objects compiled from them."""

    def __init__(self, root, folder, base=None):
        self.root, self.folder, self.base = root, folder, base
        self.replaced = None
        self.known = {}  # functions of unit tests that fail as it is: these are written for another build
        if base is None:
            self.sources = [str(p.relative_to(root)) for p in sorted(root.glob('shm/**/*.c')) if is_for_this_machine(p)]
            self.sources += [FIXTURE, *(f'tests/model/{part}.c' for part in (*ENGINE, 'seam'))]

    def replace(self, source, text):
        (self.folder / source).parent.mkdir(parents=True)
        (self.folder / source).write_text(text)
        self.replaced = source

    def object_of(self, source, group=''):
        return self.folder / (source.replace('/', '-') + group + '.o')

    def compile(self, source, group='', *flags):
        """An object; the files it is made from are beside it."""
        target = self.object_of(source, group)
        path = self.folder / source if source == self.replaced else self.root / source
        folders = [f'-I{self.folder}', f'-I{self.root}'] if self.replaced else [f'-I{self.root}']
        return subprocess.run([*GCC, *FLAGS, *folders, '-include', 'tests/model/seam.h', *flags, '-MMD', '-c', path, '-o', target],
                              cwd=self.folder, check=False, stderr=subprocess.DEVNULL).returncode == 0

    def uses(self, source, group=''):
        """Whether the base's object was made from the file that is replaced."""
        target = self.base.object_of(source, group)
        made_from = target.with_suffix('.d').read_text().split()
        return str(self.root / self.replaced) in [os.path.realpath(target.parent / name) for name in made_from]

    def objects(self):
        """None: something does not compile."""
        result = {}
        for source in self.base.sources:
            mine = self.uses(source)
            if mine and not self.compile(source):
                return None
            result[source] = (self if mine else self.base).object_of(source)
        return result


def prepare(base, groups):
    """Compiles all, as it is."""
    jobs = [(source,) for source in base.sources]
    jobs += [main_of(group) for group in groups]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        assert all(pool.map(lambda job: base.compile(*job), jobs))
    objects = {source: base.object_of(source) for source in base.sources}
    for group in groups:
        if group.startswith('unit-'):
            done = subprocess.run(link(base, objects, group), capture_output=True, text=True, check=False)
            base.known[group] = failed_functions(done.stdout + done.stderr)


def main_of(group):
    if group.startswith('unit-'):
        return f'tests/unit/shm/test-{group.removeprefix("unit-")}.c', group
    return 'tests/model/model-main.c', group, f'-DMODEL_CASE="tests/model/case/{group}.h"', f'-DMODEL_NAME="{group}"'


def failed_functions(output):
    """The functions that fail in a cmocka test."""
    return re.findall(r'^\[  FAILED  \] (test_\w+)$', output, re.MULTILINE)


def first_violation(done, known):
    if known is not None:
        lines = [name for name in failed_functions(done.stdout + done.stderr) if name not in known]
        return lines[0] if lines else f'exit status {done.returncode}' if done.returncode < 0 else None
    lines = [line for line in done.stdout.splitlines() if ' states, ' not in line]
    return lines[0] if lines else f'exit status {done.returncode}' if done.returncode else None


def link(tree, objects, group):
    main, program = main_of(group), tree.folder / f'case-{group}'
    left_out = [f'tests/model/{part}.c' for part in ENGINE] if group.startswith('unit-') else [FIXTURE]
    linked = [path for source, path in objects.items() if source not in left_out]
    owner = tree if tree.base and tree.uses(main[0], group) else tree.base or tree
    subprocess.run(['gcc', owner.object_of(main[0], group), *linked, *LIBRARIES, '-o', program], check=True)
    return program


def run(tree, objects, group, cases):
    """The message of the first case that goes red."""
    main = main_of(group)
    if tree.uses(main[0], group) and not tree.compile(*main):
        raise ValueError('does not compile')
    program = link(tree, objects, group)
    try:
        done = subprocess.run([program, *cases], capture_output=True, text=True, check=False, timeout=SECONDS)
    except subprocess.TimeoutExpired:  # nothing was seen
        return None
    return first_violation(done, tree.base.known.get(group))


class Changed(Exception):
    """The replacement does not apply any more."""


def replaced(root, source, texts):
    text = (root / source).read_text()
    for old, new in zip(texts[::2], texts[1::2]):
        text = plant.replace(text, old, new)
        if text is None:
            raise Changed(f'{source} no longer has it')
    return text


def try_fault(base, fault):
    name, place, source, *texts = fault
    group, *cases = place.split('/')
    try:
        text = replaced(base.root, source, texts)
    except Changed as error:
        return f'CHANGED {name}: {error}'
    with tempfile.TemporaryDirectory() as folder:
        tree = Tree(base.root, pathlib.Path(folder), base)
        tree.replace(source, text)
        objects = tree.objects()
        if objects is None:
            return f'CHANGED {name}: does not compile'
        try:
            found = run(tree, objects, group, cases)
        except ValueError as error:
            return f'CHANGED {name}: {error}'
    return f'red     {name}: {group}/{found}' if found else f'GREEN   {name}: {place}'


def fails(copy, test, function):
    """Whether this function of a cmocka test does, or this case. One that hangs, or that a signal ends, says nothing. But
    functions after it may hang."""
    case = [function] if test.name.startswith('model-') else []
    status, output = farm.run([*test.command, *case], SECONDS, cwd=test.workdir or copy.build, env={**os.environ, **test.env})
    return status == 1 if case else function in failed_functions(output)


def try_built_fault(copy, tests, fault):
    name, place, source, *texts = fault
    group, function = place.removeprefix(MESON).split('/')
    test, path = tests[group], copy.tree / source
    sound = path.read_text()
    try:
        if not copy.compile_for([test]) or fails(copy, test, function):
            return f'BROKEN  {name}: {group}/{function} fails without the fault'
        path.write_text(replaced(copy.root, source, texts))
        if not copy.compile_for([test]):
            return f'CHANGED {name}: does not compile'
        return f'red     {name}: {group}/{function}' if fails(copy, test, function) else f'GREEN   {name}: {place}'
    except Changed as error:
        return f'CHANGED {name}: {error}'
    finally:
        path.write_text(sound)


def try_built_faults(root, faults):
    """One after another, in one copy of the tree."""
    if not faults:
        return
    farm.become_reaper()
    with tempfile.TemporaryDirectory() as folder:
        copy = farm.Copy(root, pathlib.Path(folder), SUITES, n_jobs=os.cpu_count())
        copy.sync()
        copy.configure()
        tests = {test.name: test for test in copy.tests}
        for fault in faults:
            yield try_built_fault(copy, tests, fault)


def main():
    root, words = pathlib.Path(sys.argv[1]).resolve(), ' '.join(sys.argv[2:])
    chosen = [fault for fault in FAULTS if words in fault[0]]
    built = [fault for fault in chosen if fault[1].startswith(MESON)]
    faults = [fault for fault in chosen if fault not in built]
    failed = 0
    os.environ.pop('TSLAB_TEST_FULL', None)  # the smaller bounds show each
    with tempfile.TemporaryDirectory() as folder:
        base = Tree(root, pathlib.Path(folder))
        prepare(base, {fault[1].split('/')[0] for fault in faults})
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            results = pool.map(lambda fault: try_fault(base, fault), faults)
            for result in itertools.chain(results, try_built_faults(root, built)):
                failed += not result.startswith('red')
                print(result, flush=True)
    return failed > 0


if __name__ == '__main__':
    sys.exit(main())
