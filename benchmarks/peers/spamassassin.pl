#!/usr/bin/perl
# SpamAssassin's Bayes alone, without rules and without the network.
#
# Usage: spamassassin.pl FOLDER MINIMUM
# Requests on standard input are a letter and a length on one line, then the
# message: C classifies, S learns spam, H learns ham. Answers are lines:
# "probability finer-score" to C, "ok" to the others. It begins with "ready".
use strict;
use warnings;
use Mail::SpamAssassin;
use Mail::SpamAssassin::PerMsgStatus;

my ($folder, $minimum) = @ARGV;
my $share = '/usr/share/spamassassin';

sub slurp { local (@ARGV, $/) = ($_[0]); return scalar <> }

# What ships for Bayes: stop words, and the headers that it leaves out.
my @ignored = grep { /^bayes_ignore_header/ } split /^/, slurp("$share/72_active.cf");
my $config = join "\n",
    'loadplugin Mail::SpamAssassin::Plugin::Bayes',
    'loadplugin Mail::SpamAssassin::Plugin::Check',
    slurp("$share/20_aux_tlds.cf"), slurp("$share/60_bayes_stopwords.cf"), @ignored,
    "bayes_path $folder/bayes", 'use_bayes 1', 'bayes_auto_learn 0',
    "bayes_min_ham_num $minimum", "bayes_min_spam_num $minimum",
    'skip_rbl_checks 1', 'dns_available no', '';
my $spamassassin = Mail::SpamAssassin->new({
    config_text => $config, dont_copy_prefs => 1, local_tests_only => 1,
    userprefs_filename => '/dev/null', userstate_dir => $folder,
    home_dir_for_helpers => $folder,
});
$spamassassin->init(0);
$spamassassin->init_learner({});
my ($bayes) = grep { $_->isa('Mail::SpamAssassin::Plugin::Bayes') }
    @{ $spamassassin->{plugins}{plugins} };

# Its probability is 0 or 1 to the last digit for most mail. The two tails that
# it comes from are finer: note them as they are computed.
my @tails;
{
    no warnings 'redefine';
    my $tail = \&Mail::SpamAssassin::Bayes::Combine::chi2q;
    *Mail::SpamAssassin::Bayes::Combine::chi2q = sub {
        my $value = $tail->(@_);
        push @tails, $value > 0 ? log $value : -800;
        return $value;
    };
}

binmode STDIN;
$| = 1;
print "ready\n";
while (defined(my $request = <STDIN>)) {
    my ($verb, $length) = split ' ', $request;
    read(STDIN, my $raw, $length) == $length or die "the message is cut";
    my $mail = $spamassassin->parse($raw);
    if ($verb eq 'C') {
        @tails = ();
        my $status = Mail::SpamAssassin::PerMsgStatus->new($spamassassin, $mail);
        my $probability = $bayes->scan($status, $mail);
        printf "%.17g %.6f\n", $probability // 0.5,
            @tails == 2 ? $tails[1] - $tails[0] : 0;
        $status->finish();
    } else {
        $spamassassin->learn($mail, undef, $verb eq 'S' ? 1 : 0, 0)->finish();
        print "ok\n";
    }
    $mail->finish();
}
$spamassassin->finish_learner();
$spamassassin->finish();
