/** Enough that a bucket is small, and few enough that copying the list of buckets is cheap too. */
const BUCKETS = 1024

type Buckets<Value> = readonly (ReadonlyMap<string, Value> | undefined)[]

/**
 * A persistent map: a change copies only the buckets it touches, and older versions stay valid. A timeline of fifty
 * thousand rows can so be extended cheaply, even twice from the same point.
 */
export class VersionedMap<Value> {
  private readonly buckets: Buckets<Value>

  constructor(buckets: Buckets<Value> = new Array<undefined>(BUCKETS).fill(undefined)) {
    this.buckets = buckets
  }

  change(): MapChange<Value> {
    return new MapChange(this.buckets)
  }
}

/** Builds the next version of a map. */
export class MapChange<Value> {
  private readonly buckets: (ReadonlyMap<string, Value> | undefined)[]
  private readonly owned = new Map<number, Map<string, Value>>()

  constructor(buckets: Buckets<Value>) {
    this.buckets = [...buckets]
  }

  get(key: string): Value | undefined {
    return this.buckets[bucketOf(key)]?.get(key)
  }

  set(key: string, value: Value): void {
    const number = bucketOf(key)
    let bucket = this.owned.get(number)
    if (bucket === undefined) {
      bucket = new Map(this.buckets[number])
      this.owned.set(number, bucket)
      this.buckets[number] = bucket
    }
    bucket.set(key, value)
  }

  /** Must be the last call. */
  finish(): VersionedMap<Value> {
    return new VersionedMap(this.buckets)
  }
}

function bucketOf(key: string): number {
  let hash = 0
  for (let index = 0; index < key.length; index++) hash = (Math.imul(hash, 31) + key.charCodeAt(index)) | 0
  return (hash ^ (hash >>> 13)) & (BUCKETS - 1)
}
