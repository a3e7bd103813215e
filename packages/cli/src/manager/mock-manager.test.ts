import { describe, expect, it } from 'vitest';
import { MockManager } from './mock-manager.ts';
import type { SocketBridgeManager } from './types.ts';

describe('MockManager', () => {
  it('behaves as if every bridge came up at once', async () => {
    const manager: SocketBridgeManager = new MockManager();
    expect(await manager.isRunning('box')).toBe(false);
    expect(await manager.ensureBridge('box')).toMatchObject({ target: 'box', result: 'new' });
    expect(await manager.ensureBridge('box')).toMatchObject({ target: 'box', result: 'running' });
    expect(await manager.isRunning('box')).toBe(true);
    expect(await manager.stopBridge('box')).toBe(true);
    expect(await manager.stopBridge('box')).toBe(false);
    await manager.ensureBridge('a');
    await manager.ensureBridge('b');
    expect(await manager.stopAll()).toBe(2);
    expect(await manager.stopAll()).toBe(0);
  });

  it('remembers every call', async () => {
    const manager = new MockManager();
    await manager.ensureBridge('box', { gpg: true });
    await manager.stopBridge('other');
    await manager.stopAll();
    expect(manager.calls).toEqual([
      { method: 'ensureBridge', args: ['box', { gpg: true }] },
      { method: 'stopBridge', args: ['other', undefined] },
      { method: 'stopAll', args: [] },
    ]);
    expect(manager.calledWith('ensureBridge', 'box')).toBe(true);
    expect(manager.calledWith('ensureBridge', 'other')).toBe(false);
    expect(manager.calledWith('stopBridge', 'box')).toBe(false);
  });

  it('lets a method do otherwise, and remembers that call too', async () => {
    const manager = new MockManager({
      ensureBridge: async () => {
        throw new Error('no such container');
      },
      isRunning: async (target) => target === 'ghost',
    });
    await expect(manager.ensureBridge('box')).rejects.toThrow('no such container');
    expect(await manager.isRunning('ghost')).toBe(true);
    expect(manager.calledWith('ensureBridge', 'box')).toBe(true);
    expect(manager.calledWith('isRunning', 'ghost')).toBe(true);
  });
});
