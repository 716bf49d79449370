"""Writes a C header with DEVICE_CONTRACT: a number made of the text of the headers that libreed and a loadable device share by layout and meaning.

usage: contract.py OUT.h OUT.d ROOT HEADER...

HEADER... are paths from the source root. The headers that they include from ROOT and ROOT/include count, too, and so do lists (.def). Comments, empty lines and the width of gaps do not
count, so that a changed comment needs no new build of a module. OUT.d: the files that were read, for make and ninja."""
import hashlib, pathlib, re, sys


def read_all(root, names):
    """{name: text without comments} of the headers and all that they include, in the order of reading."""
    texts, waiting = {}, list(names)
    while waiting:
        name = waiting.pop(0)
        if name in texts: continue
        text = (root / name).read_text()
        texts[name] = re.sub(r'\s+', ' ', re.sub(r'/\*.*?\*/|//[^\n]*', ' ', text, flags=re.S)).strip()
        for included in re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, flags=re.M):
            for at in (included, 'include/' + included):
                if (root / at).is_file(): waiting.append(at)
    return texts


def main(out, depfile, root, *names):
    texts = read_all(pathlib.Path(root), names)
    digest = hashlib.sha256('\n'.join(f'{name} {text}' for name, text in sorted(texts.items())).encode()).digest()
    number = int.from_bytes(digest[:4], 'big') & 0x7fffffff
    pathlib.Path(out).write_text('/* Made by device/contract.py. */\n'
                                 f'#ifndef DEVICE_CONTRACT\n#define DEVICE_CONTRACT 0x{number:08x}\n#endif\n')
    pathlib.Path(depfile).write_text(f'{out}: ' + ' '.join(str(pathlib.Path(root) / name) for name in texts) + '\n')


if __name__ == '__main__': main(*sys.argv[1:])
