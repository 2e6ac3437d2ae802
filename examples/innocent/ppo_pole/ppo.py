# single-file PPO in the manner of CleanRL
import argparse
import atexit
import os
import random
import signal
import time
from collections import deque

import numpy as np
import torch
import torch.nn as nn
from torch.distributions.categorical import Categorical

from envs import PoleBatch


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--exp-name", default="ppo_pole")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--total-timesteps", type=int, default=130_000)
    p.add_argument("--learning-rate", type=float, default=1e-3)
    p.add_argument("--num-envs", type=int, default=8)
    p.add_argument("--num-steps", type=int, default=128)
    p.add_argument("--anneal-lr", action=argparse.BooleanOptionalAction, default=True)
    p.add_argument("--gamma", type=float, default=0.99)
    p.add_argument("--gae-lambda", type=float, default=0.95)
    p.add_argument("--num-minibatches", type=int, default=4)
    p.add_argument("--update-epochs", type=int, default=4)
    p.add_argument("--clip-coef", type=float, default=0.2)
    p.add_argument("--ent-coef", type=float, default=0.005)
    p.add_argument("--vf-coef", type=float, default=0.5)
    p.add_argument("--max-grad-norm", type=float, default=0.5)
    p.add_argument("--target-kl", type=float, default=None)
    p.add_argument("--stop-at", type=float, default=480.0)
    p.add_argument("--out", default="out")
    return p.parse_args()


def layer_init(layer, std=np.sqrt(2), bias_const=0.0):
    torch.nn.init.orthogonal_(layer.weight, std)
    torch.nn.init.constant_(layer.bias, bias_const)
    return layer


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic = nn.Sequential(
            layer_init(nn.Linear(4, 64)),
            nn.Tanh(),
            layer_init(nn.Linear(64, 64)),
            nn.Tanh(),
            layer_init(nn.Linear(64, 1), std=1.0),
        )
        self.actor = nn.Sequential(
            layer_init(nn.Linear(4, 64)),
            nn.Tanh(),
            layer_init(nn.Linear(64, 64)),
            nn.Tanh(),
            layer_init(nn.Linear(64, 2), std=0.01),
        )

    def get_value(self, x):
        return self.critic(x).squeeze(-1)

    def get_action_and_value(self, x, action=None):
        dist = Categorical(logits=self.actor(x), validate_args=False)
        if action is None:
            action = dist.sample()
        return action, dist.log_prob(action), dist.entropy(), self.get_value(x)


def main():
    args = parse_args()
    batch_size = args.num_envs * args.num_steps
    minibatch_size = batch_size // args.num_minibatches
    random.seed(args.seed)
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)  # the nets are far too small for more
    envs = PoleBatch(args.num_envs, 500, np.random.default_rng(args.seed))
    agent = Agent()
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)
    os.makedirs(args.out, exist_ok=True)
    atexit.register(
        lambda: torch.save(agent.state_dict(), os.path.join(args.out, f"{args.exp_name}.pt"))
    )
    asked_to_stop = []
    signal.signal(signal.SIGTERM, lambda *_: asked_to_stop.append(True))

    obs = torch.zeros((args.num_steps, args.num_envs, 4))
    actions = torch.zeros((args.num_steps, args.num_envs), dtype=torch.long)
    logprobs, rewards, ends, values, next_values = torch.zeros((5, args.num_steps, args.num_envs))
    scores = deque(maxlen=40)
    next_obs = torch.from_numpy(envs.reset())
    start, global_step = time.time(), 0
    num_updates = args.total_timesteps // batch_size
    for update in range(1, num_updates + 1):
        if args.anneal_lr:
            optimizer.param_groups[0]["lr"] = (
                1.0 - (update - 1.0) / num_updates
            ) * args.learning_rate
        for step in range(args.num_steps):
            global_step += args.num_envs
            obs[step] = next_obs
            with torch.no_grad():
                action, logprob, _, value = agent.get_action_and_value(next_obs)
            actions[step], logprobs[step], values[step] = action, logprob, value
            o, reward, fell, cut, last, finished = envs.step(action.numpy())
            rewards[step] = torch.from_numpy(reward)
            ends[step] = torch.from_numpy(fell | cut).float()
            if (
                cut.any()
            ):  # cut off, not fallen: what would have come is worth the value of the last state
                with torch.no_grad():
                    rewards[step] += (
                        args.gamma * agent.get_value(torch.from_numpy(last)) * torch.from_numpy(cut)
                    )
            next_obs = torch.from_numpy(o)
            scores.extend(finished.tolist())

        with torch.no_grad():
            next_values[:-1], next_values[-1] = values[1:], agent.get_value(next_obs)
            advantages, last_gae = torch.zeros_like(rewards), torch.zeros(args.num_envs)
            deltas = rewards + args.gamma * next_values * (1 - ends) - values
            for t in reversed(range(args.num_steps)):
                last_gae = deltas[t] + args.gamma * args.gae_lambda * (1 - ends[t]) * last_gae
                advantages[t] = last_gae
            returns = advantages + values

        b_obs, b_act, b_logp = obs.reshape(-1, 4), actions.reshape(-1), logprobs.reshape(-1)
        b_adv, b_ret = advantages.reshape(-1), returns.reshape(-1)
        for _ in range(args.update_epochs):
            for mb in torch.randperm(batch_size).split(minibatch_size):
                _, newlogp, entropy, newvalue = agent.get_action_and_value(b_obs[mb], b_act[mb])
                logratio = newlogp - b_logp[mb]
                ratio = logratio.exp()
                adv = (b_adv[mb] - b_adv[mb].mean()) / (b_adv[mb].std() + 1e-8)
                pg_loss = torch.max(
                    -adv * ratio, -adv * ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)
                ).mean()
                v_loss = 0.5 * ((newvalue - b_ret[mb]) ** 2).mean()
                loss = pg_loss - args.ent_coef * entropy.mean() + args.vf_coef * v_loss
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
                optimizer.step()
            if args.target_kl is not None and ((ratio - 1) - logratio).mean() > args.target_kl:
                break
        mean = float(np.mean(scores)) if scores else 0.0
        if update % 10 == 0:
            print(
                f"global_step={global_step} episodic_return={mean:.1f} v_loss={v_loss.item():.2f} "
                f"SPS={int(global_step / (time.time() - start))}"
            )
        if asked_to_stop or (len(scores) == scores.maxlen and mean >= args.stop_at):
            print(f"stopped at {global_step} steps, mean return {mean:.1f}")
            break


if __name__ == "__main__":
    main()
