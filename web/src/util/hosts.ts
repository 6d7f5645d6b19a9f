/** Whether the host in a URL is this machine. */
export const isThisMachine = (hostname: string) => ['localhost', '127.0.0.1', '[::1]'].includes(hostname)
