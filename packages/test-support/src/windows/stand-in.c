/* A program of Windows that stands for another one: it runs Node with the script that GPG_BRIDGE_STAND_IN names, and
   gives it its own words, input and output. */
#include <process.h>
#include <stdio.h>
#include <stdlib.h>
#include <wchar.h>

/* The words of a command line are joined by the runtime as they are: one with blanks or quotes needs quotes. */
static wchar_t *quoted(const wchar_t *word) {
  wchar_t *made = calloc(2 * wcslen(word) + 3, sizeof *made), *to = made;
  size_t backslashes = 0;
  *to++ = L'"';
  for (; *word; word++) {
    if (*word == L'"') {
      while (backslashes--) *to++ = L'\\';
      *to++ = L'\\';
    }
    backslashes = *word == L'\\' ? backslashes + 1 : 0;
    *to++ = *word;
  }
  while (backslashes--) *to++ = L'\\';
  *to = L'"';
  return made;
}

int wmain(int argc, wchar_t **argv) {
  const wchar_t *node = _wgetenv(L"GPG_BRIDGE_STAND_IN_NODE"), *script = _wgetenv(L"GPG_BRIDGE_STAND_IN");
  const wchar_t **words = calloc(argc + 2, sizeof *words);
  if (!node || !script || !words) return 99;
  words[0] = quoted(node);
  words[1] = quoted(script);
  for (int at = 1; at < argc; at++) words[at + 1] = quoted(argv[at]);
  return (int)_wspawnv(_P_WAIT, node, words);
}
