import { describe, expect, it } from 'vitest';
import { isCiphertext } from './ciphertext.ts';

const accepted = (text: string) => isCiphertext(Buffer.from(text, 'latin1'));

/** The part that is a point, of so many bytes. */
const point = (bytes: number) => `(1:e${bytes}:${'\x40'.repeat(bytes)})`;

describe('a ciphertext', () => {
  it.each([
    '(7:enc-val(3:rsa(1:a4:abcd)))',
    '(7:enc-val(3:elg(1:a2:ab)(1:b3:))))))',
    `(7:enc-val(4:ecdh(1:s5:\x00\x01)(:)${point(65)}))`,
    `(7:enc-val(4:ecdh${point(33)}(1:s4:wrap))(9:encr-algo7:1.2.3.4)(9:wrap-algo7:1.2.3.5)(3:ukm2:ab))`,
    `(7:enc-val(3:ecc(1:c1:7)(1:h1:8)${point(33)}(1:s4:wrap)(10:kdf-params3:abc)))`,
    `(7:enc-val(3:pqc(1:c1:9)${point(32)}(1:k2:ab)(1:s2:ab)(10:fixed-info3:abc)))`,
    `(7:enc-val(4:ecdh(1:s4:wrap)${point(28)}))`,
    `(7:enc-val(3:rsa(1:a1024:${'\xff'.repeat(1024)})))`,
  ])('is one as GnuPG sends it: %j', (text) => {
    expect(accepted(text)).toBe(true);
    for (let end = 0; end < text.length; end++) expect(accepted(text.slice(0, end))).toBe(false);
    expect(accepted(`${text} `)).toBe(false);
    expect(accepted(`${text}${text}`)).toBe(false);
  });

  it.each([
    '(7:enc-val(5:flags3:raw)(3:rsa(1:a4:abcd)))',
    '(7:enc-val(5:flags11:no-blinding)(3:rsa(1:a4:abcd)))',
    '(7:enc-val(3:rsa(1:a4:abcd))(5:flags3:raw))',
    '(7:enc-val(3:rsa(5:flags3:raw)(1:a4:abcd)))',
    '(7:enc-val(3:rsa(1:a4:abcd)(9:hash-algo4:sha1)))',
    '(7:enc-val(3:rsa))',
    '(7:enc-val(3:rsa(1:a)))',
    '(7:enc-val(3:rsa(1:a0:)))',
    '(7:enc-val(3:rsa(1:a(1:b1:c))))',
    '(7:enc-val(3:dsa(1:a4:abcd)))',
    '(7:enc-val(3:RSA(1:a4:abcd)))',
    '(7:sig-val(3:rsa(1:a4:abcd)))',
    '(4:data(5:flags3:raw)(5:value4:abcd))',
    '(enc-val(rsa(a abcd)))',
    '(7:enc-val [1:x] (3:rsa(1:a4:abcd)))',
    '(07:enc-val(3:rsa(1:a4:abcd)))',
    '(7:enc-val(3:rsa(1:a999999:abcd)))',
    '(7:enc-val(3:rsa(1:a-1:abcd)))',
    `(7:enc-val(4:ecdh(1:s4:wrap)${point(27)}))`,
    `(7:enc-val(4:ecdh(1:s4:wrap)${point(1)}))`,
    `(7:enc-val(4:ecdh${point(1)}${point(33)}(1:s4:wrap)))`,
    `(7:enc-val(4:ecdh${point(33)}${point(1)}(1:s4:wrap)))`,
    `(7:enc-val(3:ecc(1:c1:7)(1:h1:8)${point(15)}(1:s4:wrap)(10:kdf-params3:abc)))`,
    `(7:enc-val(3:pqc(1:c1:9)${point(15)}(1:k2:ab)(1:s2:ab)(10:fixed-info3:abc)))`,
    '',
  ])('is not %j', (text) => {
    expect(accepted(text)).toBe(false);
  });
});
