dnl For phpize, in a copy of this folder: phpize && ./configure && make. In the tree, meson builds the extension.
PHP_ARG_ENABLE([tslab], [whether to enable tslab], [AS_HELP_STRING([--enable-tslab], [Enable tslab])], [yes])

if test "$PHP_TSLAB" != "no"; then
  PKG_CHECK_MODULES([TSLAB], [tslab])
  PHP_EVAL_INCLINE($TSLAB_CFLAGS)
  PHP_EVAL_LIBLINE($TSLAB_LIBS, TSLAB_SHARED_LIBADD)
  PHP_SUBST(TSLAB_SHARED_LIBADD)
  for name in tslab apcu; do
    PHP_CONFIG=$PHP_CONFIG $srcdir/stub.sh $srcdir/src/$name.stub.php $srcdir/src/${name}_arginfo.h || AC_MSG_ERROR([gen_stub.php failed: is php-parser installed?])
  done
  PHP_NEW_EXTENSION(tslab, src/apcu-info.c src/apcu-iterator.c src/apcu.c src/cache.c src/class-cache-many.c src/class-cache.c src/class-lock.c src/class-map-claim.c src/class-map.c src/class-pool.c src/classes.c src/error.c src/iterator.c src/map.c src/memo.c src/pool.c src/session/behind.c src/session/engine.c src/session/session.c src/tslab.c src/value.c, $ext_shared,, -D_GNU_SOURCE -DZEND_ENABLE_STATIC_TSRMLS_CACHE=1 -I$ext_srcdir/src)
  PHP_ADD_EXTENSION_DEP(tslab, session)
  PHP_ADD_EXTENSION_DEP(tslab, json)
fi
