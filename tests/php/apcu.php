<?php
function show($l, $v) { echo $l, ': ', json_encode(var_export($v, true)), "\n"; }
apcu_clear_cache();
show('fetch none', apcu_fetch('x',$s)); show('s',$s);
show('store', apcu_store('x',5)); show('inc', apcu_inc('x',2,$s)); show('s',$s);
show('inc none', apcu_inc('n')); show('dec none', apcu_dec('m',3));
show('store str', apcu_store('str','abc')); show('inc str', apcu_inc('str',1,$s)); show('s',$s);
show('store dbl', apcu_store('d',1.5)); show('inc dbl', apcu_inc('d'));
show('max', apcu_store('max',PHP_INT_MAX)); show('inc max', apcu_inc('max')); show('max v', apcu_fetch('max'));
show('cas', apcu_cas('x',7,9)); show('cas no', apcu_cas('x',7,9)); show('cas none', apcu_cas('nope',1,2)); show('cas str', apcu_cas('str',1,2));
show('add', apcu_add('x',1)); show('add new', apcu_add('y',1));
show('store arr', apcu_store(['a'=>1,'b'=>2, 5=>3])); show('add arr', apcu_add(['a'=>1,'c'=>2]));
show('delete arr', apcu_delete(['a','zz'])); show('delete', apcu_delete('b')); show('delete none', apcu_delete('b'));
show('null', [apcu_store('nul',null), apcu_fetch('nul',$s), $s, apcu_exists('nul')]);
show('false', [apcu_store('fal',false), apcu_fetch('fal',$s), $s]);
show('entry', apcu_entry('e', fn($k)=>"made $k")); show('entry2', apcu_entry('e', fn($k)=>"made2 $k"));
show('empty key', [apcu_store('', 1), apcu_fetch('')]);
show('store neg ttl', [apcu_store('neg', 1, -5), apcu_fetch('neg')]);
$o = new stdClass; $o->a = [1,2]; apcu_store('o',$o); show('obj', apcu_fetch('o')); show('same', apcu_fetch('o')===$o);
$a=[1]; $a['self']=&$a; show('ref', apcu_store('r', $a));
class Gone {} apcu_store('g', new Gone); show('gone', get_class(apcu_fetch('g')));
try { show('closure', apcu_store('cl', function(){})); } catch (\Throwable $t) { echo get_class($t),' ',$t->getMessage(),"\n"; }
try { show('entry throws', apcu_entry('t', function(){throw new Exception('x');})); } catch (\Throwable $t) { echo get_class($t),' ',$t->getMessage(),"\n"; }
show('exists t', apcu_exists('t'));
show('key_info none', apcu_key_info('nokey')); show('key_info', array_keys(apcu_key_info('x')));
show('cache_info', array_keys(apcu_cache_info(true))); show('full', array_keys(apcu_cache_info())); show('entry keys', array_keys(apcu_cache_info()['cache_list'][0]));
show('sma', array_keys(apcu_sma_info(true)));
show('enabled', apcu_enabled());
$n=[]; foreach (new APCUIterator('/^(x|y|e)$/') as $k=>$v) { $n[$k]=$v['value']; $keys=array_keys($v);} ksort($n); show('iter', $n); show('keys',$keys);
$n=[]; foreach (new APCUIterator(['x','zz'], APC_ITER_KEY|APC_ITER_VALUE) as $k=>$v) $n[$k]=$v; show('iter list', $n);
$n=[]; foreach (new APCUIterator('/^x$/', APC_ITER_NONE) as $k=>$v) $n[$k]=$v; show('iter none', $n);
$it=new APCUIterator('/^(x|y)$/'); show('total', [$it->getTotalCount(), $it->getTotalSize()>0, $it->getTotalHits()>=0]); 
show('del iter', apcu_delete(new APCUIterator('/^x/'))); show('x gone', apcu_exists('x'));
show('clear', apcu_clear_cache()); show('after', apcu_fetch('y'));
