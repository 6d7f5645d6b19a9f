import { describe, expect, it } from 'vitest'
import { filesOf } from './patch'

const PATCH = `diff --git a/src/main.rs b/src/main.rs
new file mode 100644
index 0000000..1111111
--- /dev/null
+++ b/src/main.rs
@@ -0,0 +1,2 @@
+fn main() {}
+diff --git is not a file here
diff --git a/old.txt b/old.txt
deleted file mode 100644
index 1111111..0000000
--- a/old.txt
+++ /dev/null
@@ -1 +0,0 @@
-gone
diff --git a/logo.png b/logo.png
new file mode 100644
index 0000000..1111111
GIT binary patch
literal 4
LcmZQzU|?i00000

diff --git "a/new\\nline \\303\\274.txt" "b/new\\nline \\303\\274.txt"
index 1111111..2222222 100644
--- "a/new\\nline \\303\\274.txt"
+++ "b/new\\nline \\303\\274.txt"
@@ -1 +1 @@
-a
+b
diff --git a/empty b/empty
new file mode 100644
index 0000000..e69de29
`

describe('files of a patch', () => {
  it('have their names, kinds and numbers of lines', () => {
    const files = filesOf(PATCH).map(({ path, change_type, additions, deletions }) => [
      path,
      change_type,
      additions,
      deletions,
    ])
    expect(files).toEqual([
      ['src/main.rs', 'created', 2, 0],
      ['old.txt', 'deleted', 0, 1],
      ['logo.png', 'created', 0, 0],
      ['new\nline ü.txt', 'modified', 1, 1],
      ['empty', 'created', 0, 0],
    ])
  })

  it('have hunks only if they are text', () => {
    const [main, , logo, , empty] = filesOf(PATCH)
    expect(main?.diff).toBe('@@ -0,0 +1,2 @@\n+fn main() {}\n+diff --git is not a file here\n')
    expect([logo?.diff, empty?.diff]).toEqual([null, ''])
  })

  it('are none in an empty patch', () => {
    expect(filesOf('')).toEqual([])
  })
})
